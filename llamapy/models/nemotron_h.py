"""nemotron_h: a layer is one of three: a feed-forward where it has width, else attention, without
rope, where it has heads of K, else Mamba-2. Each has one norm before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ssm
from llamapy.models.blocks import NOTHING, Attn, Decoder, Moe, Part
from llamapy.models.blocks.mamba import MAMBA2, mamba2_state

HANDLES = frozenset({"attention.head_count_kv"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = replace(hp, norm_rms_eps=hp.norm_rms_eps or hp.norm_eps)
    kv = tuple(0 if n_ff else n for n, n_ff in zip(hp.n_head_kv, hp.n_ff, strict=True))
    return with_ssm(file, replace(hp, n_head_kv=kv), 1)


def _mixer(hp: HParams, il: int) -> Part | None:
    if hp.n_ff[il]:
        return NOTHING
    return None if hp.n_head_kv[il] else MAMBA2


def states(hp: HParams) -> Sequence[States]:
    one = mamba2_state(hp)
    return [one if _mixer(hp, il) is MAMBA2 else {} for il in range(hp.n_layer)]


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        ffn_norm="attn_norm",
        attn=Attn(rope=None),
        mixer=_mixer,
        act="relu_sqr",
        moe=Moe(act="relu_sqr"),
        ffn=lambda hp, il: None if hp.n_ff[il] else NOTHING,
    )
