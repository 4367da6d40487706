"""cohere2: command-r with windows; every fourth layer sees all and has no rope."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, read_window
from llamapy.models.blocks import LAYER, NORMAL, Attn, Decoder, window_only

HANDLES = frozenset({"attention.sliding_window", "logit_scale"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return read_scales(file, read_window(file, hp, 4))


def decoder(hp: HParams) -> Decoder:
    attn = Attn(rope=NORMAL, rope_at=window_only)
    return Decoder(norm=LAYER, parallel=True, ffn_norm="", attn=attn)
