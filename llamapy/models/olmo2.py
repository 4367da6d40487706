"""olmo2: norms after attention and feed-forward only, norms of all of q and k; windows in some."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, plain_window
from llamapy.models.blocks import FULL, POST_NORMED, Attn, Decoder

HANDLES = frozenset({"attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return plain_window(file, hp, 4)


def decoder(hp: HParams) -> Decoder:
    return replace(
        POST_NORMED,
        attn=Attn(qk_norm=FULL),
    )
