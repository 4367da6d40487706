"""plamo3: norms around both parts of a layer, q, k, v and gate, up in one matrix each, norms of q
and k."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models.blocks import HEAD, SANDWICH, Attn, Decoder

HANDLES = frozenset({"attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return read_window(file, hp, 8)


def decoder(hp: HParams) -> Decoder:
    return replace(
        SANDWICH,
        attn=Attn(qk_norm=HEAD),
    )
