"""spark2_5: windows, heads by layer, a gate for each head, geglu."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models.blocks import Attn, Decoder

HANDLES = frozenset({"attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return read_window(file, hp, 0)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(gate="sigmoid"), act="geglu")
