"""qwen2moe: qwen2 with experts and a gated shared expert; weights are not normalised."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, normalise=False, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder()
