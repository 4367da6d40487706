"""minimax-m2: norms of all of q and k, rope on a part of each head, experts with a bias of
choice."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import FULL, Attn, Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, gating="sigmoid")


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=FULL))
