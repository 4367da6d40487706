"""qwen2: pre-norm decoder with biases of q, k and v, rope on halves, swiglu."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder()
