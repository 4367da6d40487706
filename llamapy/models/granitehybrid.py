"""granitehybrid: granite, with Mamba-2 in the place of attention in layers without heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ssm
from llamapy.models import granite
from llamapy.models.blocks import Decoder, headless
from llamapy.models.blocks.mamba import MAMBA2, mamba2_state
from llamapy.models.caches import without_heads

HANDLES = granite.HANDLES | {"attention.head_count_kv"}


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_ssm(file, granite.hparams(file, hp), 1)


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, mamba2_state(hp))


def decoder(hp: HParams) -> Decoder:
    return replace(granite.decoder(hp), mixer=headless(MAMBA2))
