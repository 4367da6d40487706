"""phi3: q, k, v and gate, up in one matrix each, rope with two sets of factors; the window that its
files speak of is not applied, as in the reference."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Attn, Decoder

HANDLES = frozenset({"attention.sliding_window", "rope.scaling.type"})


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope_factors=True))
