"""llama4: chunked windows, every fourth layer without rope but with a temperature by position,
experts in every n-th layer, their weight on what they read."""

from __future__ import annotations

from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import NORMAL, Attn, Decoder, Moe

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    step = count(file, "llama4.interleave_moe_layer_step", least=1)
    return with_experts(file, hp, gating="sigmoid", normalise=False, step=step, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL), moe=Moe(choose_by="logits", weight_first=True))
