"""What an architecture keeps from token to token, unless its own module says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.kv.api import CacheShape, States
from llamapy.loader.hparams import HParams


def attention_cache(hp: HParams) -> CacheShape:
    """Every layer with heads of K attends to what came before, window layers to a sliding window.
    An architecture that differs says so by `replace(attention_cache(hp), ...)`."""
    n = hp.n_layer
    return CacheShape(
        hp.n_head_kv,
        tuple(hp.head_k(il) for il in range(n)),
        tuple(hp.head_v(il) for il in range(n)),
        hp.is_swa,
        hp.n_swa,
    )


def sharing(hp: HParams) -> CacheShape:
    """Some layers read an earlier one's."""
    return replace(attention_cache(hp), share=hp.share)


def no_states(hp: HParams) -> Sequence[States]:
    return ({},) * hp.n_layer


def unordered(hp: HParams) -> CacheShape:
    """Every token sees all of its sequence."""
    return replace(attention_cache(hp), causal=False)


def unordered_windows(hp: HParams) -> CacheShape:
    """Every token sees all of its sequence, in window layers half of a window to either side."""
    return replace(attention_cache(hp), causal=False, window="symmetric")


def without_heads(hp: HParams, one: States) -> Sequence[States]:
    """Layers without heads of K and V carry `one`."""
    return [{} if kv else one for kv in hp.n_head_kv]


def no_heads(hp: HParams) -> HParams:
    """Of a model without attention, whatever its file says of heads."""
    none = (0,) * hp.n_layer
    return replace(hp, n_head=none, n_head_kv=none)
