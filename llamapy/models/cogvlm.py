"""cogvlm: of text, llama with q, k and v in one matrix; the weights for images are not used."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Attn, Decoder

UNREAD = ("rope_freqs.weight",) + tuple(
    f".vis_{name}.weight" for name in ("attn_qkv", "attn_output", "gate", "up", "down")
)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope_factors=False))
