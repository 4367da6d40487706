"""olmo: layer norms without weights, q, k and v clamped."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, NORMAL, Attn, Decoder

HANDLES = frozenset({"attention.clamp_kqv"})


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, weights=False, attn=Attn(rope=NORMAL))
