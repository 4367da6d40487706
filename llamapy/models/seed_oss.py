"""seed_oss: qwen2 whose second norm goes by the name of a post-attention norm."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(ffn_norm="post_attention_norm")
