"""Random blocks of every type, with scales such that a row of k weights has a length of about 1."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import UsageError
from llamapy.base.types import Type

Bytes = npt.NDArray[np.uint8]


class Layout(NamedTuple):
    """Where the f16 scales of a block lie, each as a multiple of the first, and the root mean
    square of a weight whose block is random bytes and has a scale of 1. A second scale takes the
    mean of the weights away."""

    rms: float
    scales: tuple[tuple[int, float], ...] = ((0, 1.0),)  # (first byte, times the scale)


LAYOUTS = {
    "q4_0": Layout(4.6),
    "q4_1": Layout(4.6, ((0, 1.0), (2, -7.5))),
    "q5_0": Layout(9.2),
    "q5_1": Layout(9.2, ((0, 1.0), (2, -15.5))),
    "q8_0": Layout(74.0),
    "q2_K": Layout(16.0, ((80, 1.0), (82, 1.5))),
    "q3_K": Layout(43.0, ((108, 1.0),)),
    "q4_K": Layout(258.0, ((0, 1.0), (2, 7.5))),
    "q5_K": Layout(533.0, ((0, 1.0), (2, 15.5))),
    "q6_K": Layout(1367.0, ((208, 1.0),)),
    "iq1_s": Layout(6.5),
    "iq1_m": Layout(6.5, ()),  # its scale lies in four pieces, see _pieces
    "iq2_xxs": Layout(50.0),
    "iq2_xs": Layout(50.0),
    "iq2_s": Layout(50.0),
    "iq3_xxs": Layout(120.0),
    "iq3_s": Layout(128.0),
    "iq4_nl": Layout(70.0),
    "iq4_xs": Layout(1300.0),
    "tq1_0": Layout(0.8, ((52, 1.0),)),
    "tq2_0": Layout(0.8, ((64, 1.0),)),
    "q1_0": Layout(1.0),
    "q2_0": Layout(1.2),
    "mxfp4": Layout(6.0, ()),  # powers of two
    "nvfp4": Layout(3.0, ()),  # numbers of 7 bits
}


def random_blocks(t: Type, n: int, k: int, rng: np.random.Generator) -> Bytes:
    """`n` blocks of type `t`, uint8 [n * bytes of a block], for rows of `k` weights."""
    if t.block == 1:
        return _floats(t, n, k, rng)
    layout = LAYOUTS.get(t.name)
    if layout is None:
        raise UsageError(f"no random weights of type {t.name}")
    blocks = np.frombuffer(rng.bytes(n * t.size_bytes), np.uint8).reshape(n, t.size_bytes).copy()
    scale = 1.0 / (math.sqrt(k) * layout.rms)
    for at, times in layout.scales:
        blocks[:, at : at + 2] = _half(scale * times)
    if not layout.scales:
        _PIECES[t.name](blocks, scale)
    elif t.name == "tq2_0":  # two bits that are never both set
        blocks[:, :64] &= ~((blocks[:, :64] >> 1) & 0x55)
    return blocks.reshape(-1)


def _half(x: float) -> Bytes:
    return np.array([x], "<f2").view(np.uint8)


def _floats(t: Type, n: int, k: int, rng: np.random.Generator) -> Bytes:
    x = rng.standard_normal(n, np.float32) / np.float32(math.sqrt(k))
    if t.name == "f32":
        return x.view(np.uint8)
    if t.name == "f16":
        return x.astype("<f2").view(np.uint8)
    if t.name == "bf16":
        return (x.view(np.uint32) >> 16).astype("<u2").view(np.uint8)
    raise UsageError(f"no random weights of type {t.name}")


def _iq1_m(blocks: Bytes, scale: float) -> None:
    """Four bits of the scale stand above each of the four words of sub-scales at byte 48."""
    bits = int(np.array([scale], "<f2").view("<u2")[0])
    for i in range(4):
        high = blocks[:, 49 + 2 * i]
        high &= 0x0F
        high |= bits >> 4 * i << 4 & 0xF0


def _mxfp4(blocks: Bytes, scale: float) -> None:
    """An exponent e: weights are twice those of e2m1, times 2^(e - 128)."""
    blocks[:, 0] = min(max(128 + round(math.log2(scale)), 1), 254)


def _nvfp4(blocks: Bytes, scale: float) -> None:
    """Four scales with 4 bits of exponent and 3 of mantissa, here below the least normal one."""
    blocks[:, :4] = min(max(round(scale * 512), 1), 7)


_PIECES = {"iq1_m": _iq1_m, "mxfp4": _mxfp4, "nvfp4": _nvfp4}
