"""llada-moe: llada with experts and norms of q and k, rope on halves."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder
from llamapy.models.caches import unordered as cache

HANDLES = frozenset({"attention.causal", "expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, normalise=False)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD))


__all__ = ["HANDLES", "cache", "decoder", "hparams"]
