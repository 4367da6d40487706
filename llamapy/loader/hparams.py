"""What a model file says about its shape: one frozen dataclass, per-layer values where models vary.

Names are ggml's (`n_embd_head_k`, `n_head_kv`); keys are the GGUF's (`llama.block_count`).
An architecture's own module refines the common reading with `dataclasses.replace`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from llamapy.loader.adapters import Adapters, read_adapters
from llamapy.loader.bounded import (
    MAX_COUNT,
    Keys,
    count,
    counts,
    epsilon,
    not_negative,
    positive_real,
    wrong,
)
from llamapy.loader.experts import Experts, read_experts
from llamapy.loader.kda import Kda, read_kda
from llamapy.loader.mla import Mla, read_mla, yarn_scale
from llamapy.loader.ngrams import Ngrams, read_ngrams
from llamapy.loader.pooled import Pooled, read_pooled
from llamapy.loader.rwkv import Rwkv, read_rwkv
from llamapy.loader.ssm import Ssm, read_ssm
from llamapy.loader.stacks import Stacks, read_stacks

MAX_LAYERS = 512
ROPE_SCALING = ("none", "linear", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary positions of one layer. `scaling` is one of ROPE_SCALING; factors as in the YaRN paper
    (arXiv 2309.00071). `freq_scale` is 1 / the context extension factor."""

    freq_base: float = 10000.0
    freq_scale: float = 1.0
    scaling: str = "none"
    n_ctx_orig: int = 0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    sections: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class HParams:
    arch: str
    n_vocab: int
    n_ctx_train: int
    n_embd: int
    n_layer: int
    n_head: tuple[int, ...]
    n_head_kv: tuple[int, ...]
    n_ff: tuple[int, ...]
    n_embd_head_k: int
    n_embd_head_v: int
    n_rot: int
    norm_eps: float
    norm_rms_eps: float
    rope: Rope
    rope_swa: Rope
    n_swa: int = 0  # tokens a window layer sees, itself included; 0: no window layers
    is_swa: tuple[bool, ...] = ()
    attention_scale: float = 0.0
    attn_softcap: float = 0.0
    final_softcap: float = 0.0
    max_alibi_bias: float = 0.0
    temperature: float = 0.0  # by which q grows with the logarithm of its position
    clamp_kqv: float = 0.0
    attn_value_scale: float = 1.0  # of what attention gives
    embedding_scale: float = 1.0
    residual_scale: float = 1.0
    logit_scale: float = 1.0
    turns: tuple[bool, ...] = ()  # which layers have rope, where the file says so
    n_embd_head_k_swa: int = 0  # of window layers, 0: as of others
    n_embd_head_v_swa: int = 0
    n_embd_per_layer: int = 0  # of the embeddings that each layer gets of its own
    share: tuple[int, ...] = ()  # the layer whose K and V a layer reads, (): its own
    n_rot_swa: int = 0  # of window layers, 0: as of others
    parallel: bool = False  # attention and feed-forward side by side, where that is a key
    n_layer_nextn: int = 0  # layers behind these that predict further tokens: not computed
    layer_weights: tuple[int, ...] = ()  # the block of the file each layer has, (): its own
    skip_loop_norm: bool = False
    experts: Experts = Experts()
    ssm: Ssm = Ssm()
    res_block: int = 0  # kimi-k3: every so many layers one is banked
    situ: tuple[float, ...] = (0.0, 0.0)  # the bounds of the activation of that name
    xielu: tuple[tuple[float, ...], ...] = ()  # of each layer: the activation's four numbers
    adapters: Adapters = Adapters()
    mla: Mla = Mla()
    kda: Kda = Kda()
    pooled: Pooled = Pooled()
    n_token_types: int = 0  # of an encoder: first text of a pair, second text
    act: str = ""  # of the feed-forward, where that is a key
    n_conv: int = 0  # taps of the short convolutions in attention's place
    rwkv: Rwkv = Rwkv()
    ngrams: Ngrams = Ngrams()
    n_streams: int = 0  # residual streams, and the rank of what gates them
    stream_rank: int = 0
    n_attended: int = 0  # tokens that sparse attention chooses, 0: all
    stacks: Stacks = Stacks()

    def head_k(self, il: int) -> int:
        """Elements of a head of q and k in layer `il`."""
        own = self.n_embd_head_k_swa and self.is_swa[il]
        return self.n_embd_head_k_swa if own else self.n_embd_head_k

    def head_v(self, il: int) -> int:
        own = self.n_embd_head_v_swa and self.is_swa[il]
        return self.n_embd_head_v_swa if own else self.n_embd_head_v

    def n_embd_k_gqa(self, il: int) -> int:
        """Elements of one token's K row in layer `il`."""
        return self.head_k(il) * self.n_head_kv[il]

    def n_embd_v_gqa(self, il: int) -> int:
        return self.head_v(il) * self.n_head_kv[il]

    def reads_of(self, il: int) -> int:
        """The layer whose K and V layer `il` reads."""
        return self.share[il] if self.share else il

    def n_rot_of(self, il: int) -> int:
        """Elements of a head that are rotated in layer `il`."""
        return self.n_rot_swa if self.n_rot_swa and self.is_swa[il] else self.n_rot

    def rope_of(self, il: int) -> Rope:
        return self.rope_swa if self.is_swa and self.is_swa[il] else self.rope


def read_rope(file: Keys, arch: str, n_ctx_train: int) -> Rope:
    """The rope keys. An unknown scaling type is an error, not a guess."""
    pre = f"{arch}.rope."
    factor = not_negative(file, f"{pre}scaling.factor")
    if f"{pre}scaling.factor" not in file.keys:
        factor = not_negative(file, f"{pre}scale_linear")
    default = "linear" if factor not in (0.0, 1.0) else "none"
    scaling = file.get_str(f"{pre}scaling.type", default)
    if scaling not in ROPE_SCALING:
        raise wrong(file, f"{pre}scaling.type", "one of " + ", ".join(ROPE_SCALING), repr(scaling))
    yarn = scaling == "yarn"
    return Rope(
        freq_base=positive_real(file, f"{pre}freq_base", 10000.0),
        freq_scale=1.0 / factor if factor and scaling in ("linear", "yarn") else 1.0,
        scaling=scaling,
        n_ctx_orig=count(file, f"{pre}scaling.original_context_length", n_ctx_train, 1),
        ext_factor=not_negative(file, f"{pre}scaling.yarn_ext_factor", 1.0) if yarn else 0.0,
        attn_factor=positive_real(file, f"{pre}scaling.attn_factor", 1.0),
        beta_fast=positive_real(file, f"{pre}scaling.yarn_beta_fast", 32.0),
        beta_slow=positive_real(file, f"{pre}scaling.yarn_beta_slow", 1.0),
        sections=_sections(file, f"{pre}dimension_sections"),
    )


def _sections(file: Keys, key: str) -> tuple[int, int, int, int]:
    """Pairs that turn by time, height, width and a fourth coordinate."""
    values = file.get_array(key) if key in file.keys else ()
    if len(values) > 4 or any(type(v) is not int or not 0 <= v <= MAX_COUNT for v in values):
        raise wrong(file, key, "up to four whole numbers", list(values)[:5])
    a, b, c, d = (*values, 0, 0, 0, 0)[:4]
    return a, b, c, d


def _vocab_size(file: Keys, arch: str) -> int:
    if f"{arch}.vocab_size" in file.keys:
        return count(file, f"{arch}.vocab_size", least=1)
    if "tokenizer.ggml.tokens" in file.keys:
        return len(file.get_array("tokenizer.ggml.tokens"))
    raise wrong(file, f"{arch}.vocab_size", "a vocabulary size or tokenizer.ggml.tokens", "neither")


def _heads(file: Keys, arch: str, n_layer: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    key, key_kv = f"{arch}.attention.head_count", f"{arch}.attention.head_count_kv"
    n_head = counts(file, key, n_layer)
    n_head_kv = counts(file, key_kv, n_layer) if key_kv in file.keys else n_head
    for il, (h, kv) in enumerate(zip(n_head, n_head_kv, strict=True)):
        if kv and h % kv:
            raise wrong(file, key_kv, f"a divisor of layer {il}'s {h} heads", kv)
    return n_head, n_head_kv


def _head_sizes(file: Keys, arch: str, n_embd: int, heads: int) -> tuple[int, int, int]:
    """Elements of a head of k and of v, and how many of k's are rotated."""
    if not heads:
        return 0, 0, 0
    key_k, key_v = f"{arch}.attention.key_length", f"{arch}.attention.value_length"
    if (key_k not in file.keys or key_v not in file.keys) and n_embd % heads:
        raise wrong(file, f"{arch}.embedding_length", f"a multiple of {heads} heads", n_embd)
    head_k = count(file, key_k, n_embd // heads, 1)
    head_v = count(file, key_v, n_embd // heads, 1)
    n_rot = count(file, f"{arch}.rope.dimension_count", head_k, 1)
    if n_rot > head_k or n_rot % 2:
        expected = f"an even number, at most the head size {head_k}"
        raise wrong(file, f"{arch}.rope.dimension_count", expected, n_rot)
    return head_k, head_v, n_rot


def read_hparams(file: Keys) -> HParams:
    """The keys that every architecture shares. Raises FileError naming key, expected, found."""
    arch = file.get_str("general.architecture")
    n_layer = count(file, f"{arch}.block_count", least=1)
    if n_layer > MAX_LAYERS:
        raise wrong(file, f"{arch}.block_count", f"at most {MAX_LAYERS}", n_layer)
    n_embd = count(file, f"{arch}.embedding_length", least=1)
    n_ctx_train = count(file, f"{arch}.context_length", least=1)
    n_head, n_head_kv = _heads(file, arch, n_layer)
    head_k, head_v, n_rot = _head_sizes(file, arch, n_embd, next((h for h in n_head if h), 0))
    rope = read_rope(file, arch, n_ctx_train)
    return HParams(
        arch=arch,
        n_vocab=_vocab_size(file, arch),
        n_ctx_train=n_ctx_train,
        n_embd=n_embd,
        n_layer=n_layer,
        n_head=n_head,
        n_head_kv=n_head_kv,
        n_ff=counts(file, f"{arch}.feed_forward_length", n_layer),
        n_embd_head_k=head_k,
        n_embd_head_v=head_v,
        n_rot=n_rot,
        norm_eps=epsilon(file, f"{arch}.attention.layer_norm_epsilon"),
        norm_rms_eps=epsilon(file, f"{arch}.attention.layer_norm_rms_epsilon"),
        rope=rope,
        rope_swa=rope,
        is_swa=(False,) * n_layer,
        attention_scale=not_negative(file, f"{arch}.attention.scale"),
        attn_softcap=not_negative(file, f"{arch}.attn_logit_softcapping"),
        final_softcap=not_negative(file, f"{arch}.final_logit_softcapping"),
        max_alibi_bias=not_negative(file, f"{arch}.attention.max_alibi_bias"),
        clamp_kqv=not_negative(file, f"{arch}.attention.clamp_kqv"),
        pooled=read_pooled(file, arch),
    )


def swa_pattern(
    file: Keys, hp: HParams, default: int, *, dense_first: bool = False
) -> tuple[bool, ...]:
    """Which layers see a window: an array key, or every n-th layer full (scalar key or `default`;
    1: all are full, 0: none is). `dense_first`: the first of each n is the full one, else the last.
    """
    key = f"{hp.arch}.attention.sliding_window_pattern"
    value: Any = file.keys.get(key, default)
    if isinstance(value, int | float):
        if type(value) is not int or value < 0:
            raise wrong(file, key, "a period of at least 0", value)
        full = 0 if dense_first else value - 1
        return tuple(not value or il % value != full for il in range(hp.n_layer))
    values = file.per_layer(key, hp.n_layer + hp.n_layer_nextn)
    return tuple(bool(x) for x in values[: hp.n_layer])


def read_window(
    file: Keys, hp: HParams, period: int, *, dense_first: bool = False, default: int = 0
) -> HParams:
    """`hp` with its window layers: their size by key or `default` (0: there are none), which they
    are as `swa_pattern` says, their rope with a base of its own where the file has one."""
    pre = f"{hp.arch}."
    n_swa = count(file, f"{pre}attention.sliding_window", default)
    if not n_swa:
        return hp
    base = positive_real(file, f"{pre}rope.freq_base_swa", hp.rope.freq_base)
    return replace(
        hp,
        n_swa=n_swa,
        is_swa=swa_pattern(file, hp, period, dense_first=dense_first),
        rope_swa=replace(hp.rope, freq_base=base),
    )


def read_scales(file: Keys, hp: HParams) -> HParams:
    """`hp` with the factors of embeddings, residual branches and logits that the file names."""
    pre = f"{hp.arch}."
    return replace(
        hp,
        embedding_scale=file.get_float(f"{pre}embedding_scale", 0.0) or hp.embedding_scale,
        residual_scale=file.get_float(f"{pre}residual_scale", 0.0) or hp.residual_scale,
        logit_scale=file.get_float(f"{pre}logit_scale", 0.0) or hp.logit_scale,
    )


def plain_window(file: Keys, hp: HParams, period: int, *, dense_first: bool = False) -> HParams:
    """As `read_window`, of models whose window layers turn without scaling."""
    hp = read_window(file, hp, period, dense_first=dense_first)
    plain = replace(hp.rope_swa, freq_scale=1.0, scaling="none", ext_factor=0.0, attn_factor=1.0)
    n_rot = count(file, f"{hp.arch}.rope.dimension_count_swa", 0)
    return replace(hp, rope_swa=plain, n_rot_swa=n_rot) if hp.n_swa else hp


def with_experts(file: Keys, hp: HParams, **known: Any) -> HParams:
    """`hp` with what `read_experts` reads; `known` are its options."""
    return replace(hp, experts=read_experts(file, hp.arch, max(hp.n_ff), **known))


def with_mla(file: Keys, hp: HParams) -> HParams:
    """`hp` with its latent attention. YaRN scales scores and leaves the length of vectors alone."""
    head_k, head_v, n_rot = hp.n_embd_head_k, hp.n_embd_head_v, hp.n_rot
    mla = read_mla(file, hp.arch, head_k=head_k, head_v=head_v, n_rot=n_rot)
    scale = hp.attention_scale or 1.0 / math.sqrt(mla.n_head_k)
    rope = hp.rope
    if rope.ext_factor:
        scale *= yarn_scale(file, hp.arch, rope.freq_scale)
        rope = replace(rope, attn_factor=1.0 / (1.0 - 0.1 * math.log(rope.freq_scale)))
    return replace(hp, mla=mla, attention_scale=scale, rope=rope, rope_swa=rope)


def of_encoder(file: Keys, hp: HParams) -> HParams:
    """`hp` with its types of tokens. FileError for a file whose tokens see no later ones."""
    key = f"{hp.arch}.attention.causal"
    if file.get_bool(key, False):
        raise wrong(file, key, "false, as ever in an encoder", True)
    return replace(hp, n_token_types=count(file, "tokenizer.ggml.token_type_count", 0))


def with_kda(file: Keys, hp: HParams) -> HParams:
    """`hp` with its Kimi delta attention, which has as many heads as attention."""
    return replace(hp, kda=read_kda(file, hp.arch, next(h for h in hp.n_head if h)))


def with_ssm(file: Keys, hp: HParams, least_groups: int | None = None) -> HParams:
    """`hp` with its state space models, of which `read_ssm` says more."""
    return replace(hp, ssm=read_ssm(file, hp.arch, least_groups))


def with_recurrent(file: Keys, hp: HParams, period: int) -> HParams:
    """`hp` with its recurrent layers, which have no heads of K: those of an array key, or all but
    every n-th one (a key or `period`)."""
    key = f"{hp.arch}.attention.recurrent_layers"
    if key in file.keys:
        n_all = hp.n_layer + hp.n_layer_nextn
        recurrent = [bool(x) for x in file.per_layer(key, n_all)[: hp.n_layer]]
    else:
        n = count(file, f"{hp.arch}.full_attention_interval", period, 1)
        recurrent = [(il + 1) % n != 0 for il in range(hp.n_layer)]
    kv = tuple(0 if r else n for r, n in zip(recurrent, hp.n_head_kv, strict=True))
    return replace(hp, n_head_kv=kv)


def without_nextn(file: Keys, hp: HParams) -> HParams:
    """`hp` without the last blocks, which predict further tokens from what the others gave."""
    n = count(file, f"{hp.arch}.nextn_predict_layers", 0)
    if n >= hp.n_layer:
        key = f"{hp.arch}.nextn_predict_layers"
        raise wrong(file, key, f"fewer than the {hp.n_layer} blocks", n)
    if not n:
        return hp
    cut = {name: getattr(hp, name)[:-n] for name in ("n_head", "n_head_kv", "n_ff", "is_swa")}
    return replace(hp, n_layer=hp.n_layer - n, n_layer_nextn=n, **cut)


def with_rwkv(file: Keys, hp: HParams, version: int) -> HParams:
    """`hp` with its RWKV layers, none of which has attention."""
    none = (0,) * hp.n_layer
    rwkv = read_rwkv(file, hp.arch, hp.n_embd, hp.n_head_kv[0], version)
    return replace(hp, rwkv=rwkv, n_head=none, n_head_kv=none)


def shares_cache(hp: HParams, first: int) -> HParams:
    """`hp` whose layers from `first` on read the cache of the last one before that sees as much:
    the one before it is full, the one before that has a window (Gemma 3n, Gemma 4)."""
    share = (il if il < first else first - (2 if hp.is_swa[il] else 1) for il in range(hp.n_layer))
    return replace(hp, share=tuple(share))


def with_streams(file: Keys, hp: HParams) -> HParams:
    """`hp` with its residual streams, more than one."""
    pre = f"{hp.arch}.hyper_connection."
    n, rank = count(file, f"{pre}count", least=2), count(file, f"{pre}low_rank", least=1)
    return replace(hp, n_streams=n, stream_rank=rank)


def with_ngrams(file: Keys, hp: HParams) -> HParams:
    """`hp` with its embeddings of the last tokens together."""
    return replace(hp, ngrams=read_ngrams(file, hp.arch, hp.n_layer, hp.n_embd))


def with_stacks(file: Keys, hp: HParams, *, decodes: bool) -> HParams:
    """`hp` of an encoder and, if it `decodes`, a decoder: layers alike in both."""
    stacks = read_stacks(file, hp.arch, hp.n_layer, decodes=decodes)
    n = stacks.n_enc + stacks.n_dec
    alike = {name: getattr(hp, name)[:1] * n for name in ("n_head", "n_head_kv", "n_ff", "is_swa")}
    return replace(hp, stacks=stacks, n_layer=n, attention_scale=1.0, **alike)


def with_adapters(file: Keys, hp: HParams) -> HParams:
    """`hp` with its adapters, which tokens switch on."""
    return replace(hp, adapters=read_adapters(file, hp.arch, hp.n_vocab))
