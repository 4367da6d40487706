"""jais: layer norms, ALiBi, attention scaled by 1 / head size, gated silu."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, Attn, Decoder

HANDLES = frozenset({"attention.max_alibi_bias"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, attention_scale=1.0 / hp.n_embd_head_k)


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, attn=Attn(rope=None))
