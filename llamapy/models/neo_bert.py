"""neo-bert: eurobert with gate and up in one matrix, rope by pairs, and another name for the last
norm."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.bert import GIVES, HANDLES, cache, hparams
from llamapy.models.blocks import NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL), output_norm="enc.output_norm")


__all__ = ["GIVES", "HANDLES", "cache", "decoder", "hparams"]
