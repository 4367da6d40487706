"""dbrx: layer norms, q, k and v clamped, experts."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import LAYER, Decoder

HANDLES = frozenset({"expert_count", "attention.clamp_kqv"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp)


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, ffn_norm="attn_output_norm")
