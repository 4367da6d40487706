"""refact: llama with ALiBi instead of the rope."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models import llama
from llamapy.models.blocks import Attn, Decoder

FFN_BIASES = ("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias")
HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(llama.hparams(file, hp), max_alibi_bias=8.0)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=None), without=("attn_output.bias", *FFN_BIASES))
