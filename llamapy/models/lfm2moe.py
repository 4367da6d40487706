"""lfm2moe: lfm2 with experts, which have a bias of choice, after dense layers."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models import lfm2
from llamapy.models.lfm2 import decoder, states

HANDLES = lfm2.HANDLES | {"expert_count"}


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, lfm2.hparams(file, hp), gating="sigmoid", first=None)


__all__ = ["HANDLES", "decoder", "hparams", "states"]
