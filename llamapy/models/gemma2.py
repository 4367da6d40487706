"""gemma2: gemma with norms around both parts of a layer, every other layer with a window, capped
attention and logits."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models.blocks import SANDWICH, Decoder

HANDLES = frozenset({"attention.sliding_window"})
N_LAYER_27B = 46  # the one size that scales q by its width per head instead of the head size


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 2, default=4096)
    scale = hp.n_embd // hp.n_head[0] if hp.n_layer == N_LAYER_27B else hp.n_embd_head_k
    return replace(
        hp,
        attention_scale=1.0 / math.sqrt(scale),
        attn_softcap=hp.attn_softcap or 50.0,
        final_softcap=hp.final_softcap or 30.0,
        embedding_scale=math.sqrt(hp.n_embd),
    )


def decoder(hp: HParams) -> Decoder:
    return replace(SANDWICH, act="geglu")
