"""hy_v3: norms of q and k, experts with a bias of choice, a shared expert, dense layers first."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder

HANDLES = frozenset({"expert_count", "nextn_predict_layers"})
UNREAD = ("ffn_gate.weight", "ffn_up.weight", "ffn_down.weight")  # of layers with experts


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD))
