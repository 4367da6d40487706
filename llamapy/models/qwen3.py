"""qwen3: qwen2 with a norm of each head of q and k."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import HEAD, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD))
