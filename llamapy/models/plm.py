"""plm: latent attention that keeps decompressed keys and values, feed-forward without a gate."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_mla
from llamapy.models.blocks import NORMAL, Attn, Decoder, Part
from llamapy.models.blocks.mla import MlaAttention
from llamapy.models.blocks.mla import mla_cache as cache

HANDLES = frozenset({"attention.kv_lora_rank"})

__all__ = ["HANDLES", "cache", "decoder", "hparams"]


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_mla(file, hp)


def decoder(hp: HParams) -> Decoder:
    attention = MlaAttention(Attn(rope=NORMAL))
    part = Part(attention.tensors, attention.build)
    return Decoder(mixer=lambda hp, il: part, act="relu_sqr")
