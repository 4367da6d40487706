"""Checksums and a search for numbers that are none, natively. No numpy in here."""

from __future__ import annotations

import ctypes

from llamapy.ffi.lib import load
from llamapy.ffi.memory import address_of

# How a number is written, as native/include/verify.h counts them.
KINDS = {"f16": 0, "bf16": 1, "f32": 2, "f64": 3, "e8m0": 4, "iq1_m": 5}
_STATE_BYTES = 8 * 5 + 32


class Xxh64:
    """xxHash, 64 bits, seed 0; used as hashlib's objects are."""

    name = "xxh64"

    def __init__(self) -> None:
        self._dll = load().dll
        self._state = ctypes.create_string_buffer(_STATE_BYTES)
        self._dll.lp_xxh64_begin(self._state)

    def update(self, data: memoryview | bytes) -> None:
        if len(data):
            self._dll.lp_xxh64_add(self._state, address_of(data), len(data))

    def hexdigest(self) -> str:
        return f"{self._dll.lp_xxh64_end(self._state):016x}"


def nonfinite(kind: str, data: memoryview, at: int, n: int, stride: int) -> tuple[int, int]:
    """Of n numbers, `stride` bytes apart from data[at] on: how many are NaN or infinite, and which
    is the first of them (-1: none). The last may end with `data`."""
    if n <= 0:
        return 0, -1
    width = {"bf16": 2, "f16": 2, "e8m0": 1, "f32": 4}.get(kind, 8)
    if at < 0 or stride < 1 or at + (n - 1) * stride + width > len(data):
        raise ValueError(f"{n} numbers, {stride} bytes apart from {at} on, in {len(data)} bytes")
    first = ctypes.c_int64()
    found: int = load().dll.lp_nonfinite(
        KINDS[kind], address_of(data) + at, n, stride, ctypes.byref(first)
    )
    return found, first.value
