"""ernie4_5-moe: ernie4_5 with experts in every n-th layer after dense ones, a bias of choice and
shared experts."""

from __future__ import annotations

from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"expert_count"})
UNREAD = ("attn_output.bias",)


def hparams(file: Keys, hp: HParams) -> HParams:
    step = count(file, f"{hp.arch}.interleave_moe_layer_step", 1, 1)
    return with_experts(file, hp, first=None, step=step, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL))
