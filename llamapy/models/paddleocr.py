"""paddleocr: of text ernie4_5 with rope on halves, all positions of a token being equal."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder

HANDLES = frozenset({"rope.dimension_sections"})


def decoder(hp: HParams) -> Decoder:
    return Decoder()
