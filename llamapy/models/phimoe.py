"""phimoe: phi3 with biases, experts, a choice of frequency factors by the length of the
context."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import Attn, Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope_factors=True))
