"""deepseek2-ocr: of text deepseek with another rope; attention keeps all heads as they are."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Attn, Decoder
from llamapy.models.deepseek import HANDLES, hparams

__all__ = ["HANDLES", "decoder", "hparams"]


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn())
