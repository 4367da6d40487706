"""Which memory a model needs, opened with the sizes and types of a context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llamapy.base.errors import UsageError
from llamapy.base.types import BY_NAME, Type
from llamapy.graph.device import Device
from llamapy.kv.api import CacheShape, Memory, States
from llamapy.kv.crossed import CrossedCache
from llamapy.kv.hybrid import HybridCache
from llamapy.kv.recurrent import RecurrentCache
from llamapy.kv.unified import UnifiedCache


def open_memory(
    shape: CacheShape,
    states: Sequence[States],
    device_of: Callable[[int], Device],
    *,
    n_ctx: int,
    n_seq_max: int,
    n_ubatch: int,
    type_k: str,
    type_v: str,
) -> Memory:
    """Attention, recurrent states or both, by what layers have. Raises UsageError for a cache type
    that does not fit the heads, MemoryBudgetError when there is no room."""
    k, v = BY_NAME[type_k], BY_NAME[type_v]
    check_heads(shape, k, v)
    sizes: dict[str, Any] = {
        "n_ctx": n_ctx,
        "n_seq_max": n_seq_max,
        "n_ubatch": n_ubatch,
        "type_k": k,
        "type_v": v,
    }
    if shape.text is not None:
        check_heads(shape.text, k, v)
        return _crossed(shape, shape.text, device_of, **sizes)
    attends = any(shape.owns(il) for il in range(len(shape.n_head_kv)))
    recurrent = None
    if any(states) or not attends:
        recurrent = RecurrentCache(states, device_of, n_seq_max=n_seq_max, n_ubatch=n_ubatch)
    if not attends and recurrent is not None:
        return recurrent
    try:
        attention = UnifiedCache(shape, device_of, **sizes)
    except BaseException:
        if recurrent is not None:
            recurrent.free()
        raise
    return attention if recurrent is None else HybridCache(attention, recurrent)


def _crossed(
    shape: CacheShape, text: CacheShape, device_of: Callable[[int], Device], **sizes: Any
) -> CrossedCache:
    own = UnifiedCache(shape, device_of, **sizes)
    try:
        return CrossedCache(own, UnifiedCache(text, device_of, **sizes), len(shape.n_head_kv))
    except BaseException:
        own.free()
        raise


def check_heads(shape: CacheShape, type_k: Type, type_v: Type) -> None:
    """A head is read on its own, so that it must be whole blocks of the cache's type."""
    for il in range(len(shape.n_head_kv)):
        if not shape.owns(il):
            continue
        type_of_v = type_k if shape.v_is_k[il] else type_v
        for what, type_, n in (
            ("K", type_k, shape.n_embd_head_k[il]),
            ("V", type_of_v, shape.n_embd_head_v[il]),
        ):
            if n % type_.block:
                raise UsageError(
                    f"a cache of {what} in {type_.name} takes heads of a multiple of "
                    f"{type_.block} elements, and this model's have {n}; use f16 for {what}"
                )
