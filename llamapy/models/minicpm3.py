"""minicpm3: latent attention decompressed before it is kept, factors as minicpm's, which no key
names, rope with two sets of factors."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_mla
from llamapy.models.blocks import Attn, Decoder, Part
from llamapy.models.blocks.mla import MlaAttention
from llamapy.models.blocks.mla import mla_cache as cache
from llamapy.models.deepseek2 import MLA_KEYS

HANDLES = MLA_KEYS | {"rope.scaling.type"}


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = replace(
        hp,
        embedding_scale=12.0,
        residual_scale=1.4 / math.sqrt(hp.n_layer),
        logit_scale=256.0 / hp.n_embd,
    )
    return with_mla(file, hp)


def decoder(hp: HParams) -> Decoder:
    attention = MlaAttention(Attn(rope_factors=True))
    part = Part(attention.tensors, attention.build)
    return Decoder(attn=attention.attn, mixer=lambda hp, il: part)


__all__ = ["HANDLES", "cache", "decoder", "hparams"]
