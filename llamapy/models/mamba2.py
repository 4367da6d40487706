"""mamba2: mamba with heads of channels, and B and C shared by groups of them."""

from __future__ import annotations

from collections.abc import Sequence

from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ssm
from llamapy.models.blocks import NOTHING, Decoder
from llamapy.models.blocks.mamba import MAMBA2, mamba2_state
from llamapy.models.caches import no_heads, without_heads

HANDLES = frozenset({"attention.head_count", "attention.head_count_kv"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_ssm(file, no_heads(hp), 1)


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, mamba2_state(hp))


def decoder(hp: HParams) -> Decoder:
    return Decoder(mixer=lambda hp, il: MAMBA2, ffn=lambda hp, il: NOTHING)
