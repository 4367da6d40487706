"""The usual chain of a sampler as one call: native/src/usual.h."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from llamapy.ffi.lib import load
from llamapy.ffi.top import Floats, place_of


class _Usual(ctypes.Structure):
    """struct lp_usual."""

    _fields_ = (
        ("n_bias", ctypes.c_int64),
        ("bias_ids", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("k", ctypes.c_int64),
        ("min_keep", ctypes.c_int64),
        ("top_p", ctypes.c_double),
        ("min_p", ctypes.c_float),
        ("temp", ctypes.c_float),
        ("n", ctypes.c_int64),
        ("at", ctypes.c_int64),
        ("id", ctypes.c_void_p),
        ("x", ctypes.c_void_p),
        ("e", ctypes.c_void_p),
    )


class Usual:
    """Bias, the `k` most likely, `top_p`, the logarithm of min_p, the temperature, one draw.

    After `sample`: `n` are left, most likely first, `ids` int64 and `logits` float32 `[k]`, and the
    one at `at` was drawn.
    """

    def __init__(
        self,
        k: int,
        *,
        top_p: float = 1.0,
        log_min_p: float = -np.inf,
        temp: float = 1.0,
        min_keep: int = 0,
        bias: Mapping[int, float],
    ) -> None:
        k = max(k, min_keep, 1)
        self.ids, self.logits = np.empty(k, np.int64), np.empty(k, np.float32)
        self._weights = np.empty(k, np.float64)
        self._bias_ids = np.array(sorted(bias), np.int64)
        self._bias = np.array([bias[id] for id in sorted(bias)], np.float32)
        arrays = (self._bias_ids, self._bias, self.ids, self.logits, self._weights)
        bias_ids, amounts, *left = (a.ctypes.data for a in arrays)
        about = (k, min_keep, top_p, log_min_p, temp, 0, 0)
        self._state = _Usual(len(bias), bias_ids, amounts, *about, *left)
        self._at, self._call = ctypes.byref(self._state), load().dll.lp_usual

    def sample(self, logits: Floats, u: float) -> int:
        """The id at `u` in [0, 1). -1: a logit is NaN, or the highest is not finite."""
        x = np.ascontiguousarray(logits, np.float32)
        return int(self._call(place_of(x), len(x), self._at, u))

    @property
    def n(self) -> int:
        return int(self._state.n)

    @property
    def at(self) -> int:
        return int(self._state.at)
