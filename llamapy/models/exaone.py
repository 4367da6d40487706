"""exaone: pre-norm decoder, rope on halves with frequency factors, swiglu."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope_factors=True))
