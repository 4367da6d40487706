"""gpt-oss: sinks, every other layer with a window, experts with biases and a clamped gate, chosen
by logits."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import Decoder, Moe

HANDLES = frozenset({"expert_count", "attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 2)
    return with_experts(file, hp, gating="softmax_selected", normalise=False)


def decoder(hp: HParams) -> Decoder:
    return Decoder(ffn_norm="post_attention_norm", moe=Moe(act="swiglu_oai"))
