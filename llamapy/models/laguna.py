"""laguna: norms of q and k, heads by layer, gated attention, YaRN in the layers without a window
alone, experts with a bias of choice, a shared expert."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, plain_window, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder

HANDLES = frozenset({"expert_count", "attention.sliding_window", "rope.dimension_count_swa"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = plain_window(file, hp, 4, dense_first=True)
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD, gate="softplus"))
