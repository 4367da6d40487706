"""llada: llama whose tokens see all others, so that a sequence is computed at once."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder
from llamapy.models.caches import unordered as cache

LLAMA_BIASES = ("attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias")
HANDLES = frozenset({"attention.causal"})


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL), without=LLAMA_BIASES)


__all__ = ["HANDLES", "cache", "decoder"]
