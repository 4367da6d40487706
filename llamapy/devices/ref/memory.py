"""Tensors as numpy arrays, slowest axis first: [ne3, ne2, ne1, ne0]. Strides are honoured; block
types are decoded and encoded row by row."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import MemoryBudgetError
from llamapy.base.types import BY_NAME, Type
from llamapy.devices.ref.interleaved import is_interleaved, plain, separate
from llamapy.graph.device import BufferType
from llamapy.graph.tensor import Tensor

Array: TypeAlias = Any  # npt.NDArray: to a type checker its arithmetic gives Any all the same
X8_GROUP = 32

_ELEMENT: dict[str, npt.DTypeLike] = {
    "f32": "<f4",
    "f16": "<f2",
    "f64": "<f8",
    "bf16": "<u2",
    "i8": "<i1",
    "i16": "<i2",
    "i32": "<i4",
    "i64": "<i8",
}


class RefBuffer:
    def __init__(self, buft: BufferType, n_bytes: int, usage: str) -> None:
        self.type = buft
        self.usage = usage
        self.n_bytes = n_bytes
        try:
            self._bytes = bytearray(n_bytes)
        except (MemoryError, OverflowError) as e:
            raise MemoryBudgetError(f"cannot open a {usage} buffer of {n_bytes} bytes") from e

    def write(self, offset: int, data: Any) -> None:
        raw = memoryview(data)
        if raw.nbytes:
            assert offset + raw.nbytes <= self.n_bytes, (offset, raw.nbytes, self.n_bytes)
            self._bytes[offset : offset + raw.nbytes] = raw.cast("B")

    def read(self, offset: int, n_bytes: int) -> memoryview:
        assert 0 <= offset <= offset + n_bytes <= self.n_bytes, (offset, n_bytes, self.n_bytes)
        return memoryview(self._bytes)[offset : offset + n_bytes]

    def free(self) -> None:
        self._bytes = bytearray()
        self.n_bytes = 0


def rows(t: Tensor) -> Array:
    """The stored form, as a view: one array item per element, or uint8 [..., row bytes] for block
    types (whose rows must be whole)."""
    ne, nb = t.ne, t.nb
    shape, strides = ne[::-1], nb[::-1]
    dtype: npt.DTypeLike = np.uint8
    if t.type.block == 1:
        dtype = _ELEMENT[t.type.name]
    else:
        assert nb[0] == t.type.size_bytes, f"{t!r}: rows of blocks are permuted"
        shape, strides = (*shape[:3], t.type.row_bytes(ne[0])), (*strides[:3], 1)
    if not t.n_elements:
        return np.zeros(shape, dtype)
    buffer, offset = t.home()
    raw = buffer.read(offset, t.n_bytes)
    return np.ndarray(shape, dtype, buffer=raw, strides=strides)


def decode(stored: Array, type_: Type, dtype: npt.DTypeLike) -> Array:
    """Stored rows -> values: floats in `dtype`, integers as they are."""
    name = type_.name
    if name == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(dtype)
    if type_.block == 1:
        return stored.astype(stored.dtype if stored.dtype.kind == "i" else dtype)
    if name == "x8":
        q, d, _ = x8_planes(stored)
        groups = q.reshape(*q.shape[:-1], -1, X8_GROUP).astype(dtype)
        return (groups * d[..., None].astype(dtype)).reshape(q.shape)
    if is_interleaved(name):
        return decode(separate(stored, plain(name)), BY_NAME[plain(name)], dtype)
    from gguf import GGMLQuantizationType, quants

    flat = np.ascontiguousarray(stored).reshape(-1, stored.shape[-1])
    values = quants.dequantize(flat, GGMLQuantizationType(type_.id))
    return values.reshape(*stored.shape[:-1], values.shape[-1]).astype(dtype)


def encode(values: Array, type_: Type) -> Array:
    """Values -> stored rows; floats are rounded to the nearest, ties to even."""
    name = type_.name
    if name == "bf16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        nearest = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), (bits >> 16 | 0x40).astype(np.uint16), nearest)
    if type_.block == 1:
        with np.errstate(over="ignore"):  # beyond f16's range: infinity
            return values.astype(_ELEMENT[name])
    if name == "x8":
        return x8_rows(values)
    from gguf import GGMLQuantizationType, quants

    flat = np.ascontiguousarray(values, np.float32).reshape(-1, values.shape[-1])
    if name == "iq4_nl":
        stored = iq4_nl_rows(flat, np.array(quants.IQ4_NL.kvalues, np.float32))
    else:
        stored = quants.quantize(flat, GGMLQuantizationType(type_.id))
    return stored.reshape(*values.shape[:-1], stored.shape[-1])


def iq4_nl_rows(values: Array, table: Array) -> Array:
    """float32 [n, k] -> uint8 [n, k/32*18]. The value of largest magnitude stands for table[0], the
    others for the nearest entry (the upper one of two as near); then d is fitted, by x^2."""
    x = values.reshape(-1, 32)
    largest = np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)
    d = largest / table[0]
    with np.errstate(divide="ignore"):
        inverse = np.where(d != 0, 1 / d, np.float32(0))
    ids = np.searchsorted((table[1:] + table[:-1]) / 2, x * inverse, side="right").astype(np.uint8)
    wide, q = x.astype(np.float64), table[ids].astype(np.float64)
    weight = wide * wide * q
    down = np.cumsum(weight * q, axis=1)[:, -1:]  # one after the other: a sum may go by pairs
    up = np.cumsum(weight * wide, axis=1)[:, -1:]
    fitted = np.divide(up, down, out=d.astype(np.float64), where=down > 0)
    halves = fitted.astype(np.float32).astype("<f2").view(np.uint8)
    nibbles = ids[:, :16] | ids[:, 16:] << 4
    return np.concatenate((halves, nibbles), axis=1).reshape(len(values), -1)


def x8_planes(stored: Array) -> tuple[Array, Array, Array]:
    """int8 q[k], f32 d[k/32], i32 sum[k/32] of rows laid out as in native/include/x8.h."""
    flat = np.ascontiguousarray(stored)
    n = flat.shape[-1] // 40
    k = n * X8_GROUP
    q = flat[..., :k].view(np.int8)
    d = np.ascontiguousarray(flat[..., k : k + 4 * n]).view("<f4")
    sums = np.ascontiguousarray(flat[..., k + 4 * n :]).view("<i4")
    return q, d, sums


def x8_rows(values: Array) -> Array:
    """The bits of native/include/x8.h: every step rounded to f32."""
    x = values.astype(np.float32).reshape(*values.shape[:-1], -1, X8_GROUP)
    largest = np.abs(x).max(axis=-1)
    d = largest / np.float32(127)
    with np.errstate(divide="ignore"):
        inverse = np.where(d != 0, np.float32(127) / largest, np.float32(0)).astype(np.float32)
    q = np.rint(x * inverse[..., None]).astype(np.int8)
    sums = q.sum(axis=-1, dtype=np.int32)
    lead = values.shape[:-1]
    parts = (q.reshape(*lead, -1).view(np.uint8), d.view(np.uint8), sums.view(np.uint8))
    return np.concatenate(parts, axis=-1)
