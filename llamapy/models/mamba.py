"""mamba: no attention and no feed-forward, a selective state space in every layer."""

from __future__ import annotations

from collections.abc import Sequence

from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ssm
from llamapy.models.blocks import NOTHING, Decoder
from llamapy.models.blocks.mamba import MAMBA, mamba_state
from llamapy.models.caches import no_heads, without_heads

HANDLES = frozenset({"attention.head_count", "attention.head_count_kv", "ssm.dt_b_c_rms"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_ssm(file, no_heads(hp))


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, mamba_state(hp))


def decoder(hp: HParams) -> Decoder:
    return Decoder(mixer=lambda hp, il: MAMBA, ffn=lambda hp, il: NOTHING)
