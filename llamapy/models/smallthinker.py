"""smallthinker: experts chosen by the layer's input before its norm; of those with windows, every
fourth layer sees all and has no rope."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import Attn, Decoder, Moe

HANDLES = frozenset({"expert_count", "attention.sliding_window"})


def _has_rope(hp: HParams, il: int) -> bool:
    return il % 4 != 0 or not hp.n_swa


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 4, dense_first=True)
    return with_experts(file, hp)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope_at=_has_rope), moe=Moe(act="reglu", raw_router=True))
