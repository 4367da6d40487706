"""mpt: layer norms, ALiBi or learned positions, q, k and v clamped, gelu."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import FULL, LAYER, Attn, Decoder

HANDLES = frozenset({"attention.max_alibi_bias", "attention.clamp_kqv"})


def decoder(hp: HParams) -> Decoder:
    attn = Attn(rope=None, qk_norm=FULL, qk_kind=LAYER)
    return Decoder(norm=LAYER, attn=attn, act="gelu")
