"""mimo2: window layers with sinks and a rope base of their own, experts with a bias of choice, what
attention gives scaled."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import Decoder

HANDLES = frozenset(
    {
        "expert_count",
        "attention.sliding_window",
        "attention.value_scale",
        "nextn_predict_layers",
    }
)
UNREAD = tuple(f"attn_{x}.bias" for x in "qkv") + tuple(
    f"ffn_{x}.weight" for x in ("gate", "up", "down")
)


def hparams(file: Keys, hp: HParams) -> HParams:
    scale = file.get_float("mimo2.attention.value_scale", 0.0) or 1.0
    hp = replace(hp, attn_value_scale=scale)
    hp = read_window(file, hp, 0)
    return with_experts(file, hp, gating="sigmoid")


def decoder(hp: HParams) -> Decoder:
    return Decoder()
