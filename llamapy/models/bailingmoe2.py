"""bailingmoe2: norms of q and k, experts in groups with a bias of choice, shared experts, dense
layers first."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder

HANDLES = frozenset({"expert_count", "nextn_predict_layers"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD))
