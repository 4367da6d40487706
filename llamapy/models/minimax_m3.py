"""minimax-m3: minimax-m2 with bounded activations, shared experts and dense layers first; attention
looks at chosen blocks in long contexts; here at all, so that contexts are as long as those."""

from __future__ import annotations

from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder, Moe
from llamapy.models.blocks.chosen import INDEXER as UNREAD
from llamapy.models.blocks.chosen import with_chosen

HANDLES = frozenset({"expert_count"})
OAI = "swiglu_oai"

__all__ = ["HANDLES", "UNREAD", "decoder", "hparams"]


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = with_experts(file, hp, normalise=False, first=None, shared=True)
    return with_chosen(file, hp, count(file, "minimax-m3.attention.indexer.block_size", least=1))


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD), act=OAI, moe=Moe(act=OAI))
