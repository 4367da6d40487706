"""The highest of many numbers."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import NumericError
from llamapy.ffi.lib import load

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@functools.cache
def _native() -> Any:
    """Looked up once: this is asked for with every token, between steps that leave caches cold."""
    return load().dll.lp_top_k


def top_k(x: Floats, k: int) -> tuple[Ids, Floats]:
    """Indices and values of the `k` highest of float32 `x` [n], 0 < k <= n, highest first, of equal
    ones the lower index first. NumericError for a NaN."""
    x = np.ascontiguousarray(x, np.float32)
    if not 0 < k <= len(x):
        raise ValueError(f"{k} of {len(x)} numbers")
    ids, values = np.empty(k, np.int64), np.empty(k, np.float32)
    bad = _native()(place_of(x), len(x), k, place_of(ids), place_of(values))
    if bad >= 0:
        raise NumericError(f"NaN at {bad} of {len(x)} numbers")
    return ids, values


def place_of(a: npt.NDArray[Any]) -> Any:
    """An array whose elements lie in order, as an argument. `a.ctypes` takes far longer, and works
    for what is read-only."""
    try:
        return ctypes.byref(ctypes.c_char.from_buffer(a))  # type: ignore[arg-type]  # a buffer it is
    except TypeError:
        return a.ctypes.data
