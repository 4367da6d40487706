"""A small RWKV-7 of random weights: the reference set has none.

Shapes are those of converted models: low-rank pairs of four different ranks, layer 0 with value
residual tensors that nobody reads (of the learning rate's rank, as the peer wants them).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf_writer import Writer

N_EMBD, N_FF, N_LAYER, N_VOCAB, HEAD = 128, 192, 3, 128, 64
RANK = {"w": 24, "a": 16, "v": 8, "g": 32}
KEYS = {"w": "decay", "a": "iclr", "v": "value_residual_mix", "g": "gate"}


class RandomFile:
    def __init__(self, seed: int) -> None:
        self.writer = Writer()
        self.random = np.random.default_rng(seed)

    def normal(self, name: str, ne: Sequence[int], mean: float = 0.0, spread: float = 1.0) -> None:
        values = self.random.normal(mean, spread, int(np.prod(ne))).astype("<f4")
        self.writer.tensor(name, ne, "f32", values.tobytes())

    def matrix(self, name: str, n_in: int, n_out: int) -> None:
        self.normal(f"{name}.weight", (n_in, n_out), 0.0, n_in**-0.5)

    def norm(self, name: str) -> None:
        self.normal(f"{name}.weight", (N_EMBD,), 1.0, 0.1)
        self.normal(f"{name}.bias", (N_EMBD,), 0.0, 0.1)


def start(arch: str, seed: int) -> RandomFile:
    """The keys that all versions have, embeddings and their norm."""
    f = RandomFile(seed)
    w = f.writer.text("general.architecture", arch)
    w.u32(f"{arch}.vocab_size", N_VOCAB).u32(f"{arch}.context_length", 256)
    w.u32(f"{arch}.embedding_length", N_EMBD).u32(f"{arch}.block_count", N_LAYER)
    w.u32(f"{arch}.feed_forward_length", N_FF).u32(f"{arch}.wkv.head_size", HEAD)
    w.u32(f"{arch}.attention.head_count", 0).f32(f"{arch}.attention.layer_norm_epsilon", 1e-5)
    w.text("tokenizer.ggml.model", "test")
    w.strings("tokenizer.ggml.tokens", [f"tok_{i}" for i in range(N_VOCAB)])
    w.array("tokenizer.ggml.token_type", "i32", [1] * N_VOCAB)
    f.normal("token_embd.weight", (N_EMBD, N_VOCAB))
    f.norm("token_embd_norm")
    return f


def end(f: RandomFile, path: Path) -> Path:
    f.norm("output_norm")
    f.matrix("output", N_EMBD, N_VOCAB)
    return f.writer.save(path)


def _layer(f: RandomFile, il: int) -> None:
    blk = f"blk.{il}"
    f.norm(f"{blk}.attn_norm")
    f.norm(f"{blk}.attn_norm_2")
    f.normal(f"{blk}.time_mix_lerp_fused.weight", (N_EMBD, 1, 1, 6), 0.5, 0.3)
    for letter in "wavg":
        rank = RANK["a"] if letter == "v" and il == 0 else RANK[letter]
        if letter != "g":
            f.normal(f"{blk}.time_mix_{letter}0.weight", (N_EMBD,))
        f.matrix(f"{blk}.time_mix_{letter}1", N_EMBD, rank)
        f.matrix(f"{blk}.time_mix_{letter}2", rank, N_EMBD)
    for name, mean in (("k_k", 0.8), ("k_a", 0.9), ("r_k", 0.0)):
        f.normal(f"{blk}.time_mix_{name}.weight", (N_EMBD,), mean, 0.2)
    for name in ("key", "value", "receptance", "output"):
        f.matrix(f"{blk}.time_mix_{name}", N_EMBD, N_EMBD)
    f.norm(f"{blk}.time_mix_ln")
    f.normal(f"{blk}.channel_mix_lerp_k.weight", (N_EMBD, 1, 1), 0.5, 0.3)
    f.matrix(f"{blk}.channel_mix_key", N_EMBD, N_FF)
    f.matrix(f"{blk}.channel_mix_value", N_FF, N_EMBD)


def write(path: Path, seed: int = 7) -> Path:
    """The same bytes for the same seed."""
    f = start("rwkv7", seed)
    for letter, key in KEYS.items():
        f.writer.u32(f"rwkv7.attention.{key}_lora_rank", RANK[letter])
    for il in range(N_LAYER):
        _layer(f, il)
    return end(f, path)
