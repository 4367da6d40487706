"""chatglm: rope on a part of each head, gate and up in one matrix."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL))
