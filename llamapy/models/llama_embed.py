"""llama-embed: llama whose tokens see all others, for embeddings."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, of_encoder
from llamapy.models import llama
from llamapy.models.bert import GIVES, cache
from llamapy.models.llama import decoder

HANDLES = llama.HANDLES | {"attention.causal"}


def hparams(file: Keys, hp: HParams) -> HParams:
    return llama.hparams(file, of_encoder(file, hp))


__all__ = ["GIVES", "HANDLES", "cache", "decoder", "hparams"]
