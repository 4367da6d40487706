"""A small RWKV-6 of random weights: the reference set has none. Layer 1 has the starts of its five
mixtures as five tensors, as files from before they were made one have."""

from __future__ import annotations

from pathlib import Path

from random_rwkv7 import HEAD, N_EMBD, N_FF, N_LAYER, RandomFile, end, start

RANK_MIX, RANK_DECAY = 16, 24


def _layer(f: RandomFile, il: int) -> None:
    blk = f"blk.{il}"
    f.norm(f"{blk}.attn_norm")
    f.norm(f"{blk}.attn_norm_2")
    mix = [f"{blk}.time_mix_lerp_{c}.weight" for c in "xwkvrg"]
    if il != 1:
        f.normal(f"{blk}.time_mix_lerp_fused.weight", (N_EMBD, 1, 1, 5), 0.5, 0.3)
        mix = mix[:1]
    for name in (*mix, *(f"{blk}.channel_mix_lerp_{c}.weight" for c in "kr")):
        f.normal(name, (N_EMBD, 1, 1), 0.5, 0.3)
    f.matrix(f"{blk}.time_mix_w1", N_EMBD, 5 * RANK_MIX)
    f.normal(f"{blk}.time_mix_w2.weight", (RANK_MIX, N_EMBD, 5), 0.0, RANK_MIX**-0.5)
    f.matrix(f"{blk}.time_mix_decay_w1", N_EMBD, RANK_DECAY)
    f.matrix(f"{blk}.time_mix_decay_w2", RANK_DECAY, N_EMBD)
    f.normal(f"{blk}.time_mix_decay.weight", (N_EMBD,), -1.0, 1.0)
    f.normal(f"{blk}.time_mix_first.weight", (HEAD, N_EMBD // HEAD))
    for name in ("key", "value", "receptance", "gate", "output"):
        f.matrix(f"{blk}.time_mix_{name}", N_EMBD, N_EMBD)
    f.norm(f"{blk}.time_mix_ln")
    f.matrix(f"{blk}.channel_mix_receptance", N_EMBD, N_EMBD)
    f.matrix(f"{blk}.channel_mix_key", N_EMBD, N_FF)
    f.matrix(f"{blk}.channel_mix_value", N_FF, N_EMBD)


def write(path: Path, seed: int = 6) -> Path:
    """The same bytes for the same seed."""
    f = start("rwkv6", seed)
    f.writer.u32("rwkv6.time_mix_extra_dim", RANK_MIX)
    f.writer.u32("rwkv6.time_decay_extra_dim", RANK_DECAY)
    f.writer.u32("rwkv6.rescale_every_n_layers", 2)
    for il in range(N_LAYER):
        _layer(f, il)
    return end(f, path)
