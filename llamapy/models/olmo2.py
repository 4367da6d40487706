"""olmo2: norms after attention and feed-forward only, norms of all of q and k; windows in some."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window
from llamapy.models.blocks import FULL, Attn, Decoder

HANDLES = frozenset({"attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    """Window layers turn without YaRN."""
    hp = read_window(file, hp, 4)
    plain = replace(hp.rope_swa, freq_scale=1.0, scaling="none", ext_factor=0.0, attn_factor=1.0)
    return replace(hp, rope_swa=plain) if hp.n_swa else hp


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        attn_norm="",
        ffn_norm="",
        post_attn_norm="post_attention_norm",
        post_ffn_norm="post_ffw_norm",
        attn=Attn(qk_norm=FULL),
    )
