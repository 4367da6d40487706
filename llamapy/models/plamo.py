"""plamo: attention and feed-forward side by side after one norm."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(parallel=True, ffn_norm="")
