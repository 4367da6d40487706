"""The exponential of sampling, and its logarithm: native/src/weights.h. numpy's and the C library's
differ in their last bits from one machine to the next, and a seed shall give one text on all."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.ffi.lib import load
from llamapy.ffi.top import Floats, place_of

Weights = npt.NDArray[np.float64]


@functools.cache
def _native(name: str) -> Any:
    return getattr(load().dll, name)


def weights(x: Floats) -> tuple[Weights, float]:
    """exp(x - highest x) of float32 `x` [n] without NaN and +inf, and their sum."""
    x = np.ascontiguousarray(x, np.float32)
    out = np.empty(len(x), np.float64)
    return out, _native("lp_weights")(place_of(x), len(x), place_of(out))


def total_weight(x: Floats) -> float:
    """Their sum alone."""
    x = np.ascontiguousarray(x, np.float32)
    return float(_native("lp_weights")(place_of(x), len(x), None))


def exp(x: float) -> float:
    """0 below -708; anything above 709 counts as that."""
    return float(_native("lp_exp")(x))


def log(x: float) -> float:
    """Of x > 0."""
    return float(_native("lp_log")(x))
