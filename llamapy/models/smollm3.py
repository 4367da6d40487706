"""smollm3: llama with no rope in every fourth layer."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL, rope_at=lambda hp, il: (il + 1) % 4 != 0))
