"""Rows of quantised weights and of x8 activations for tests, and what they mean in float64."""

from __future__ import annotations

from dataclasses import dataclass

import gguf
import numpy as np

from llamapy.base.types import BY_NAME

Rng = np.random.Generator

# Where the f16 fields of a block lie; every other byte may be anything.
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
}
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
    return with_scales(blocks, type_name, scales).reshape(rows, -1)


def extreme_weights(type_name: str, rows: int, k: int) -> np.ndarray:
    """Blocks of all ones, of all zeros and of -128 (0x80) bytes under the largest scales."""
    t = BY_NAME[type_name]
    n = rows * k // t.block
    fill = np.array([0xFF, 0x00, 0x80, 0x7F], np.uint8)
    blocks = np.repeat(fill[np.arange(n) % 4], t.size_bytes).reshape(n, -1)
    sign = np.where(np.arange(n) % 8 < 4, 1, -1)[:, None]
    scales = np.full((n, len(HALVES[type_name])), 6e4) * sign
    return with_scales(blocks, type_name, scales.astype(np.float16)).reshape(rows, -1)


def real_weights(raw: np.ndarray, type_name: str, k: int) -> np.ndarray:
    """float64 [rows, k]."""
    qtype = gguf.GGMLQuantizationType[type_name.upper()]
    rows = gguf.quants.dequantize(raw.reshape(-1, BY_NAME[type_name].row_bytes(k)), qtype)
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
