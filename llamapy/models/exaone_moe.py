"""exaone-moe: norms of q and k, every fourth layer sees all and has no rope, experts with a bias of
choice, shared experts."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder, window_only

HANDLES = frozenset({"expert_count", "attention.sliding_window", "nextn_predict_layers"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 4, default=128)
    return with_experts(file, hp, normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD, rope_at=window_only, rope_factors=True))
