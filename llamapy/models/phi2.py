"""phi2: attention and feed-forward side by side after one layer norm, rope on a part of each
head."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, parallel=True, ffn_norm="", act="gelu")
