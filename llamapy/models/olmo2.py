"""olmo2: norms after attention and feed-forward only, norms of all of q and k; windows in some."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, plain_window
from llamapy.models.blocks import FULL, Attn, Decoder

HANDLES = frozenset({"attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return plain_window(file, hp, 4)


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        attn_norm="",
        ffn_norm="",
        post_attn_norm="post_attention_norm",
        post_ffn_norm="post_ffw_norm",
        attn=Attn(qk_norm=FULL),
    )
