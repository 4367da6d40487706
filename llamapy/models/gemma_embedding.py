"""gemma-embedding: gemma3 whose tokens see all others, for embeddings; windows to both sides."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, of_encoder, read_window
from llamapy.models.bert import GIVES
from llamapy.models.caches import unordered_windows as cache
from llamapy.models.gemma3 import decoder

HANDLES = frozenset({"attention.causal", "attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, of_encoder(file, hp), 6)
    return replace(hp, attention_scale=0.0, embedding_scale=math.sqrt(hp.n_embd))


__all__ = ["GIVES", "HANDLES", "cache", "decoder", "hparams"]
