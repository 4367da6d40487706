"""glm-dsa: deepseek32 with experts that a sigmoid weighs; layers may share what is chosen."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts, with_mla
from llamapy.models import deepseek32
from llamapy.models.blocks.chosen import with_chosen
from llamapy.models.deepseek32 import UNREAD, cache, decoder

HANDLES = deepseek32.HANDLES

__all__ = ["HANDLES", "UNREAD", "cache", "decoder", "hparams"]


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)
    return with_chosen(file, with_mla(file, hp))
