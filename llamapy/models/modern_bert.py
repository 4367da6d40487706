"""modern-bert: layer norms before attention (but the first) and feed-forward, gate and up in one
matrix, windows to both sides but in every third layer, rope with a base for each kind."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys, wrong
from llamapy.loader.hparams import HParams, of_encoder, read_window
from llamapy.models.bert import GIVES
from llamapy.models.blocks import LAYER, Decoder
from llamapy.models.caches import unordered_windows as cache

ACTS = {
    "gelu": "geglu",
    "geglu": "geglu",
    "silu": "swiglu",
    "swish": "swiglu",
    "swiglu": "swiglu",
    "reglu": "reglu",
}
HANDLES = frozenset({"attention.causal", "attention.sliding_window", "hidden_activation"})


def hparams(file: Keys, hp: HParams) -> HParams:
    act = file.get_str("modern-bert.hidden_activation", "gelu")
    if act not in ACTS:
        raise wrong(file, "modern-bert.hidden_activation", "one of " + ", ".join(ACTS), repr(act))
    hp = read_window(file, of_encoder(file, hp), 3, dense_first=True)
    return replace(hp, act=ACTS[act])


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, first_norm=False, embd_norm="token_embd_norm", act=hp.act)


__all__ = ["GIVES", "HANDLES", "cache", "decoder", "hparams"]
