"""qwen2vl: of text qwen2, all positions of a token being equal."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder

HANDLES = frozenset({"rope.dimension_sections"})
UNREAD = ("output.bias",)


def decoder(hp: HParams) -> Decoder:
    return Decoder()
