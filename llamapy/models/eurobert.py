"""eurobert: llama whose tokens see all others, for embeddings; rope by halves."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.bert import GIVES, HANDLES, cache, hparams
from llamapy.models.blocks import Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder()


__all__ = ["GIVES", "HANDLES", "cache", "decoder", "hparams"]
