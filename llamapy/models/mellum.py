"""mellum: norms of q and k, window layers with a plain rope, experts."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, plain_window, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder

HANDLES = frozenset({"expert_count", "attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = plain_window(file, hp, 4)
    return with_experts(file, hp)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD))
