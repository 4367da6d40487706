"""lfm2: layers without heads have a short convolution between gates in attention's place; norms of
q and k; where there is a window, all of attention has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.kv.api import States
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import HEAD, Attn, Decoder, headless
from llamapy.models.blocks.conv import SHORT_CONV, short_conv_state
from llamapy.models.caches import without_heads

HANDLES = frozenset({"attention.head_count_kv", "attention.sliding_window"})


def hparams(file: Keys, hp: HParams) -> HParams:
    n_swa = count(file, f"{hp.arch}.attention.sliding_window", 0)
    return replace(
        hp,
        n_conv=count(file, f"{hp.arch}.shortconv.l_cache", least=2),
        n_swa=n_swa,
        is_swa=tuple(n_swa > 0 and kv > 0 for kv in hp.n_head_kv),
    )


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, short_conv_state(hp))


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        attn=Attn(qk_norm=HEAD),
        mixer=headless(SHORT_CONV),
        output_norm="token_embd_norm",
    )
