"""mimo2: window layers with sinks and a rope base of their own, experts with a bias of choice, what
attention gives scaled."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import Decoder

HANDLES = frozenset({"expert_count", "attention.sliding_window", "nextn_predict_layers"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 0)
    return with_experts(file, hp, gating="sigmoid")


def decoder(hp: HParams) -> Decoder:
    return Decoder()
