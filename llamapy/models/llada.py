"""llada: llama whose tokens see all others, so that a sequence is computed at once."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder
from llamapy.models.caches import unordered as cache

HANDLES = frozenset({"attention.causal"})
UNREAD = ("attn_output.bias", "ffn_gate.bias", "ffn_up.bias", "ffn_down.bias", "rope_freqs.weight")


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL))


__all__ = ["HANDLES", "UNREAD", "cache", "decoder"]
