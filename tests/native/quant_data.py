"""Rows of quantised weights and of x8 activations for tests, and what they mean in float64."""

from __future__ import annotations

from dataclasses import dataclass

import gguf
import numpy as np

from llamapy.base.types import BY_NAME
from llamapy.devices.ref.interleaved import interleave, is_interleaved, plain

Rng = np.random.Generator

# Where the f16 fields of a block lie; every other byte may be anything (but see EXPONENTS).
HALVES: dict[str, tuple[int, ...]] = {
    "q4_0": (0,),
    "q4_1": (0, 2),
    "q5_0": (0,),
    "q5_1": (0, 2),
    "q8_0": (0,),
    "q2_K": (80, 82),
    "q3_K": (108,),
    "q4_K": (0, 2),
    "q5_K": (0, 2),
    "q6_K": (208,),
    "iq1_m": (48,),
    "iq1_s": (0,),
    "iq2_s": (0,),
    "iq2_xs": (0,),
    "iq2_xxs": (0,),
    "iq3_s": (0,),
    "iq3_xxs": (0,),
    "iq4_nl": (0,),
    "iq4_xs": (0,),
    "mxfp4": (),
    "nvfp4": (),
    "tq1_0": (52,),
    "tq2_0": (64,),
    "q1_0": (0,),
    "q2_0": (0,),
}
# Where a power of two stands whose products would overflow.
EXPONENTS = {"mxfp4": 0}
QUANTISED = tuple(HALVES)
FLOATS = ("f32", "f16", "bf16")


def with_scales(blocks: np.ndarray, type_name: str, scales: np.ndarray) -> np.ndarray:
    """blocks: uint8 [n, bytes]; scales: f16 [n, fields]."""
    if type_name == "iq1_m":  # a nibble of the f16 on top of each of four words
        shifts = np.arange(0, 16, 4, dtype=np.uint16)
        nibbles = scales.view(np.uint16) >> shifts & np.uint16(15)  # [n, 4]
        words = blocks[:, 48:56].view(np.uint16)
        words[:] = words & np.uint16(0xFFF) | nibbles << np.uint16(12)
        return blocks
    for i, at in enumerate(HALVES[type_name]):
        blocks[:, at : at + 2] = scales[:, i : i + 1].view(np.uint8)
    return blocks


def random_weights(rng: Rng, type_name: str, rows: int, k: int) -> np.ndarray:
    """uint8 [rows, row bytes]: random bits with finite scales of either sign, some of them zero or
    subnormal."""
    if is_interleaved(type_name):
        return interleave(random_weights(rng, plain(type_name), rows, k), plain(type_name))
    t = BY_NAME[type_name]
    if type_name in FLOATS:
        x = rng.standard_normal((rows, k)).astype(np.float32)
        if type_name == "f16":
            x[:, ::7] *= np.float32(1e-6)  # subnormal in f16
            return x.astype(np.float16).view(np.uint8)
        if type_name == "bf16":
            return np.ascontiguousarray(x.view(np.uint16)[:, 1::2]).view(np.uint8)
        return x.view(np.uint8)
    n = rows * k // t.block
    blocks = rng.integers(0, 256, (n, t.size_bytes), dtype=np.uint8)
    scales = (rng.standard_normal((n, len(HALVES[type_name]))) * 0.01).astype(np.float16)
    scales[rng.random(scales.shape) < 0.05] = 0
    scales[rng.random(scales.shape) < 0.05] = np.float16(-3e-7)
    if type_name in EXPONENTS:
        e = rng.integers(96, 136, n)
        e[rng.random(n) < 0.1] = rng.integers(0, 3)
        blocks[:, EXPONENTS[type_name]] = e
    return with_scales(blocks, type_name, scales).reshape(rows, -1)


def extreme_weights(type_name: str, rows: int, k: int) -> np.ndarray:
    """Blocks of all ones, of all zeros and of -128 (0x80) bytes under the largest scales."""
    if is_interleaved(type_name):
        return interleave(extreme_weights(plain(type_name), rows, k), plain(type_name))
    t = BY_NAME[type_name]
    n = rows * k // t.block
    fill = np.array([0xFF, 0x00, 0x80, 0x7F], np.uint8)
    blocks = np.repeat(fill[np.arange(n) % 4], t.size_bytes).reshape(n, -1)
    sign = np.where(np.arange(n) % 8 < 4, 1, -1)[:, None]
    scales = np.full((n, len(HALVES[type_name])), 6e4) * sign
    if type_name in EXPONENTS:
        blocks[:, EXPONENTS[type_name]] = 140
    return with_scales(blocks, type_name, scales.astype(np.float16)).reshape(rows, -1)


def fields(raw: np.ndarray, type_name: str, bits: int) -> np.ndarray:
    """float32 [rows, k]: blocks of an f16 scale and fields of 1 or 2 bits, the lowest first, each
    worth scale * (2 * field - 1) or scale * (field - 1)."""
    blocks = raw.reshape(-1, BY_NAME[type_name].size_bytes)
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    q = (blocks[:, 2:, None] >> shifts & np.uint8(2**bits - 1)).reshape(len(blocks), -1)
    return (d * (q.astype(np.float32) * np.float32(3 - bits) - 1)).reshape(len(raw), -1)


def dequantised(raw: np.ndarray, type_name: str) -> np.ndarray:
    """float32 [rows, k] of uint8 [rows, row bytes], as the format's definition rounds."""
    if type_name in ("q1_0", "q2_0"):  # the gguf package has no reader of these two
        return fields(raw, type_name, int(type_name[1]))
    rows = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[type_name.upper()])
    return rows.astype(np.float32)


def real_weights(raw: np.ndarray, type_name: str, k: int) -> np.ndarray:
    """float64 [rows, k]."""
    rows = dequantised(raw.reshape(-1, BY_NAME[type_name].row_bytes(k)), type_name)
    return rows.reshape(-1, k).astype(np.float64)


@dataclass
class X8:
    """Activations [n, k] as x8."""

    q: np.ndarray  # int8 [n, k]
    d: np.ndarray  # float32 [n, k / 32]

    @property
    def packed(self) -> np.ndarray:
        """uint8 [n, k / 32 * 40]: the planes q, d and sum of every row."""
        n, k = self.q.shape
        total = self.q.reshape(n, -1, 32).sum(2, dtype=np.int32)
        planes = [a.view(np.uint8).reshape(n, -1) for a in (self.q, self.d, total)]
        return np.ascontiguousarray(np.concatenate(planes, axis=1))

    @property
    def real(self) -> np.ndarray:
        """float64 [n, k]"""
        return self.q * np.repeat(self.d.astype(np.float64), 32, axis=1)


def random_x8(rng: Rng, n: int, k: int) -> X8:
    q = rng.integers(-127, 128, (n, k)).astype(np.int8)
    d = (rng.random((n, k // 32)) * 0.02).astype(np.float32)
    d[rng.random(d.shape) < 0.05] = 0
    return X8(q, d)


def extreme_x8(n: int, k: int) -> X8:
    """Columns of 127, of -127 and of both in turn."""
    q = np.full((n, k), 127, np.int8)
    q[1::3] = -127
    q[2::3, ::2] = -127
    return X8(q, np.full((n, k // 32), 3.0, np.float32))
