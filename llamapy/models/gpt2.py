"""gpt2: layer norms, learned positions, gelu (Radford et al. 2019)."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, attn=Attn(rope=None), act="gelu")
