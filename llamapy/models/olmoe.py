"""olmoe: norms of all of q and k, experts whose weights are not normalised."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import FULL, Attn, Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, normalise=False)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=FULL))
