"""ernie4_5: llama with rope on adjacent pairs; sections of the vision models are equal for text."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL))
