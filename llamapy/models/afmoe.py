"""afmoe: norms around both parts of a layer and of q and k, gated attention, rope in window layers
alone, experts with a bias of choice, shared experts."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import HEAD, SANDWICH, Attn, Decoder

HANDLES = frozenset({"expert_count", "attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 4)
    hp = replace(hp, embedding_scale=math.sqrt(hp.n_embd))
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return replace(
        SANDWICH,
        attn=Attn(qk_norm=HEAD, gate="sigmoid", rope_at=lambda hp, il: (il + 1) % 4 != 0),
    )
