"""jais2: layer norms with biases, rope on halves, an ungated squared relu."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, act="relu_sqr")
