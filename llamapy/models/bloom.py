"""bloom: layer norms, one of them of the embeddings, ALiBi, gelu (Le Scao et al. 2022)."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, Attn, Decoder


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, max_alibi_bias=8.0)


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, embd_norm="token_embd_norm", attn=Attn(rope=None), act="gelu")
