"""exaone4: norms after attention and feed-forward only; of the size with windows, every fourth
layer sees all and has no rope."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models.blocks import HEAD, POST_NORMED, Attn, Decoder, window_only

HANDLES = frozenset({"attention.sliding_window", "nextn_predict_layers"})
N_LAYER_32B = 64  # the one size with windows


def hparams(file: Keys, hp: HParams) -> HParams:
    return read_window(file, hp, 4, default=4096) if hp.n_layer == N_LAYER_32B else hp


def decoder(hp: HParams) -> Decoder:
    return replace(
        POST_NORMED,
        attn=Attn(qk_norm=HEAD, rope_at=window_only, rope_factors=True),
    )
