"""bert: the encoder, with learned positions and GELU."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.loader.hparams import of_encoder as hparams
from llamapy.models.blocks.encoder import Encoder
from llamapy.models.builder import EMBEDDINGS
from llamapy.models.caches import unordered as cache

GIVES = EMBEDDINGS
HANDLES = frozenset({"attention.causal"})


def encoder(hp: HParams) -> Encoder:
    return Encoder(learned=True)


__all__ = ["GIVES", "HANDLES", "cache", "encoder", "hparams"]
