"""bailingmoe: llama with experts and shared experts."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL))
