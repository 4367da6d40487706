"""stablelm: layer norms with biases, rope on a part of each head, norms of q and k in some; a layer
without a second norm runs side by side."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import HEADS, LAYER, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, attn=Attn(qk_norm=HEADS, qk_kind=LAYER))
