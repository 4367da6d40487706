"""jina-bert-v2: bert with ALiBi to both sides, norms on q and k, geglu; a layer may add its input
twice."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, of_encoder
from llamapy.models.bert import GIVES, cache
from llamapy.models.blocks import FULL, LAYER, Attn
from llamapy.models.blocks.encoder import Encoder

HANDLES = frozenset({"attention.causal", "attention.max_alibi_bias"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(of_encoder(file, hp), max_alibi_bias=8.0)


def encoder(hp: HParams) -> Encoder:
    attn = Attn(rope=None, qk_norm=FULL, qk_kind=LAYER)
    return Encoder(attn=attn, gated="geglu", again=True)


__all__ = ["GIVES", "HANDLES", "cache", "encoder", "hparams"]
