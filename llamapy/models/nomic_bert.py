"""nomic-bert: bert with rope and swiglu."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.bert import GIVES, HANDLES, cache, hparams
from llamapy.models.blocks import Attn
from llamapy.models.blocks.encoder import Encoder


def encoder(hp: HParams) -> Encoder:
    return Encoder(attn=Attn(), act="swiglu")


__all__ = ["GIVES", "HANDLES", "cache", "encoder", "hparams"]
