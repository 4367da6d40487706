"""llama: pre-norm decoder, rope on adjacent pairs, swiglu; with experts it is Mixtral."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL, rope_factors=True))
