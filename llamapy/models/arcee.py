"""arcee: llama with an ungated squared relu."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL, rope_factors=True), act="relu_sqr")
