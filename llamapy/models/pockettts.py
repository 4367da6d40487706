"""pockettts: the language part: layer norms, rope on adjacent pairs, gelu without biases."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, attn=Attn(rope=NORMAL), act="gelu")
