"""dream: qwen2 whose tokens see all others, so that a sequence is computed at once."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder
from llamapy.models.caches import unordered as cache

HANDLES = frozenset({"attention.causal"})
UNREAD = ("output.bias",)


def decoder(hp: HParams) -> Decoder:
    return Decoder()


__all__ = ["HANDLES", "UNREAD", "cache", "decoder"]
