"""ernie4_5: llama; sections of the rope, which vision models have, are equal for text."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"rope.dimension_sections"})
UNREAD = ("attn_output.bias",)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL))
