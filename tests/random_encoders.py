"""Small encoders of random weights, one or two of each architecture: the reference set has none.

What the reference implementation makes of them is in tests/data/encoders.npz: `tokens` [40], and by
name float32 [40, 64], what each token is after the last norm. Values are halves that float16 holds,
so that files are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from gguf_writer import Writer

N_EMBD, N_FF, N_LAYER, N_VOCAB, N_CTX, N_HEAD = 64, 96, 4, 128, 64, 4
TYPES = {"cls": 2, "mean": 1, "last": 3, "rank": 4}
Put = Callable[["_File", int], None]


@dataclass(frozen=True, slots=True)
class Small:
    """`layer` writes what a layer has besides attention; `keys` are the architecture's own."""

    arch: str
    layer: Put
    eps: str = "layer_norm_epsilon"
    norms: tuple[str, ...] = ("token_embd_norm",)  # with biases
    scales: tuple[str, ...] = ()  # norms without
    qkv: str = "apart"  # or 'fused'
    biases: bool = False
    n_head_kv: int = N_HEAD
    types: bool = False
    learned: bool = False
    more: dict[str, tuple[int, ...]] = field(default_factory=dict)  # further tensors
    keys: dict[str, int | float | str] = field(default_factory=dict)


class _File:
    def __init__(self, seed: int) -> None:
        self.writer = Writer()
        self.random = np.random.default_rng(seed)

    def normal(self, name: str, ne: Sequence[int], mean: float = 0.0, spread: float = 1.0) -> None:
        values = self.random.normal(mean, spread, int(np.prod(ne))).astype("<f2").astype("<f4")
        self.writer.tensor(name, ne, "f32", values.tobytes())

    def matrix(self, name: str, n_in: int, *n_out: int, bias: bool = False) -> None:
        self.normal(f"{name}.weight", (n_in, *n_out), 0.0, 1.5 * n_in**-0.5)
        if bias:
            self.normal(f"{name}.bias", n_out, 0.0, 0.2)

    def norm(self, name: str, n: int = N_EMBD, *, bias: bool = True) -> None:
        self.normal(f"{name}.weight", (n,), 1.0, 0.2)
        if bias:
            self.normal(f"{name}.bias", (n,), 0.0, 0.2)


def _after(f: _File, il: int, *more: str) -> None:
    for name in ("attn_output_norm", *more, "layer_output_norm"):
        f.norm(f"blk.{il}.{name}")


def _plain(f: _File, il: int) -> None:
    _after(f, il)
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, N_FF, bias=True)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD, bias=True)


def _gated(f: _File, il: int) -> None:
    _after(f, il)
    f.matrix(f"blk.{il}.ffn_gate", N_EMBD, N_FF)
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, N_FF)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD)


def _experts(f: _File, il: int) -> None:
    if il % 2 == 0:
        _plain(f, il)
        return
    _after(f, il)
    f.matrix(f"blk.{il}.ffn_gate_inp", N_EMBD, 6)
    f.matrix(f"blk.{il}.ffn_up_exps", N_EMBD, N_FF, 6)
    f.matrix(f"blk.{il}.ffn_down_exps", N_FF, N_EMBD, 6)


def _jina2(f: _File, il: int) -> None:
    f.norm(f"blk.{il}.attn_q_norm")
    f.norm(f"blk.{il}.attn_k_norm")
    _after(f, il, "attn_norm_2")
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, 2 * N_FF, bias=True)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD, bias=True)


def _jina2_gate(f: _File, il: int) -> None:
    _after(f, il)
    f.matrix(f"blk.{il}.ffn_gate", N_EMBD, N_FF)
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, N_FF)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD, bias=True)


def _before(f: _File, il: int) -> None:
    f.norm(f"blk.{il}.attn_norm", bias=False)
    f.norm(f"blk.{il}.ffn_norm", bias=False)


def _llama(f: _File, il: int) -> None:
    _before(f, il)
    f.matrix(f"blk.{il}.ffn_gate", N_EMBD, N_FF)
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, N_FF)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD)


def _fused(f: _File, il: int) -> None:
    _before(f, il)
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, 2 * N_FF)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD)


def _modern(f: _File, il: int) -> None:
    if il:
        f.norm(f"blk.{il}.attn_norm", bias=False)
    f.norm(f"blk.{il}.ffn_norm", bias=False)
    f.matrix(f"blk.{il}.ffn_up", N_EMBD, 2 * N_FF)
    f.matrix(f"blk.{il}.ffn_down", N_FF, N_EMBD)


def _gemma(f: _File, il: int) -> None:
    _llama(f, il)
    f.norm(f"blk.{il}.post_attention_norm", bias=False)
    f.norm(f"blk.{il}.post_ffw_norm", bias=False)
    f.norm(f"blk.{il}.attn_q_norm", N_EMBD // N_HEAD, bias=False)
    f.norm(f"blk.{il}.attn_k_norm", N_EMBD // N_HEAD, bias=False)


RMS = "layer_norm_rms_epsilon"
LAST = ("output_norm",)
RANKS = {
    "cls.weight": (N_EMBD, N_EMBD),
    "cls.bias": (N_EMBD,),
    "cls.output.weight": (N_EMBD, 1),
    "cls.output.bias": (1,),
}
MODERN_RANKS = {**RANKS, "cls.norm.weight": (N_EMBD,)}
del MODERN_RANKS["cls.bias"]
DENSE = {"dense_2.weight": (N_EMBD, 80), "dense_3.weight": (80, N_EMBD)}
MODELS = {
    "bert": Small("bert", _plain, biases=True, types=True, learned=True, more=RANKS),
    "bert-fused": Small("bert", _plain, qkv="fused", biases=True, types=True, learned=True),
    "nomic-bert": Small("nomic-bert", _gated, qkv="fused", types=True),
    "nomic-bert-moe": Small(
        "nomic-bert-moe",
        _experts,
        qkv="fused",
        biases=True,
        types=True,
        keys={"moe_every_n_layers": 2, "expert_count": 6, "expert_used_count": 2},
    ),
    "jina-bert-v2": Small("jina-bert-v2", _jina2, biases=True, types=True),
    "jina-bert-v2-gate": Small("jina-bert-v2", _jina2_gate, biases=True, types=True),
    "jina-bert-v2-plain": Small("jina-bert-v2", _plain, biases=True, types=True),
    "jina-bert-v3": Small("jina-bert-v3", _plain, qkv="fused", biases=True, types=True),
    "modern-bert": Small(
        "modern-bert",
        _modern,
        norms=(),
        scales=("token_embd_norm", *LAST),
        qkv="fused",
        more={
            **{k: ne for k, ne in RANKS.items() if k != "cls.bias"},
            "cls.norm.weight": (N_EMBD,),
        },
        keys={
            "attention.sliding_window": 13,
            "rope.freq_base": 160000.0,
            "rope.freq_base_swa": 10000.0,
        },
    ),
    "modern-bert-silu": Small(
        "modern-bert",
        _modern,
        norms=(),
        scales=("token_embd_norm", *LAST),
        qkv="fused",
        keys={"hidden_activation": "silu"},
    ),
    "neo-bert": Small("neo-bert", _fused, RMS, norms=(), scales=("enc.output_norm",), qkv="fused"),
    "eurobert": Small("eurobert", _llama, RMS, norms=(), scales=LAST, n_head_kv=2),
    "gemma-embedding": Small(
        "gemma-embedding",
        _gemma,
        RMS,
        norms=(),
        scales=LAST,
        n_head_kv=2,
        more=DENSE,
        keys={
            "attention.sliding_window": 16,
            "attention.sliding_window_pattern": 2,
            "rope.freq_base": 1000000.0,
            "rope.freq_base_swa": 10000.0,
            "dense_2_feat_in": N_EMBD,
            "dense_2_feat_out": 80,
            "dense_3_feat_in": 80,
            "dense_3_feat_out": N_EMBD,
        },
    ),
    "llama-embed": Small("llama-embed", _llama, RMS, norms=(), scales=LAST, n_head_kv=2),
}


def _keys(w: Writer, m: Small, words: Sequence[str] = ()) -> None:
    w.text("general.architecture", m.arch)
    for name, value in {
        "vocab_size": N_VOCAB,
        "context_length": N_CTX,
        "embedding_length": N_EMBD,
        "block_count": N_LAYER,
        "feed_forward_length": N_FF,
        "attention.head_count": N_HEAD,
        "attention.head_count_kv": m.n_head_kv,
        f"attention.{m.eps}": 1e-5,
        **m.keys,
    }.items():
        put = {int: w.u32, float: w.f32, str: w.text}[type(value)]
        put(f"{m.arch}.{name}", value)  # type: ignore[operator]
    w.flag(f"{m.arch}.attention.causal", False)
    w.text("tokenizer.ggml.model", "bert" if words else "test")
    nameless = [f"tok_{i}" for i in range(len(words), N_VOCAB)]
    w.strings("tokenizer.ggml.tokens", [*words, *nameless])
    w.array("tokenizer.ggml.token_type", "i32", [1] * N_VOCAB)
    if m.types:
        w.u32("tokenizer.ggml.token_type_count", 2)


def _attention(f: _File, m: Small, il: int) -> None:
    n_kv = N_EMBD // N_HEAD * m.n_head_kv
    if m.qkv == "fused":
        f.matrix(f"blk.{il}.attn_qkv", N_EMBD, N_EMBD + 2 * n_kv, bias=m.biases)
    else:
        for name, n in (("q", N_EMBD), ("k", n_kv), ("v", n_kv)):
            f.matrix(f"blk.{il}.attn_{name}", N_EMBD, n, bias=m.biases)
    f.matrix(f"blk.{il}.attn_output", N_EMBD, N_EMBD, bias=m.biases)


def write(
    path: Path, name: str, seed: int = 11, pooling: str = "", words: Sequence[str] = ()
) -> Path:
    """The same bytes for the same seed. `words`: WordPieces instead of nameless tokens."""
    f, m = _File(seed), MODELS[name]
    _keys(f.writer, m, words)
    if pooling:
        f.writer.u32(f"{m.arch}.pooling_type", TYPES[pooling])
    f.normal("token_embd.weight", (N_EMBD, N_VOCAB))
    if m.types:
        f.normal("token_types.weight", (N_EMBD, 2), 0.0, 0.5)
    if m.learned:
        f.normal("position_embd.weight", (N_EMBD, N_CTX), 0.0, 0.5)
    for norm in (*m.norms, *m.scales):
        f.norm(norm, bias=norm in m.norms)
    for il in range(N_LAYER):
        _attention(f, m, il)
        m.layer(f, il)
    for tensor, ne in m.more.items():
        f.normal(tensor, ne, 0.0, ne[0] ** -0.5)
    return f.writer.save(path)
