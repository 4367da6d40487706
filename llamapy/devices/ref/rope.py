"""Rotary positions (Su et al. 2021), with sections (M-RoPE) and YaRN (Peng et al. 2023)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from llamapy.devices.ref.memory import Array
from llamapy.graph.tensor import Tensor

NORMAL, NEOX, MROPE, VISION, IMROPE = 0, 2, 8, 24, 40


def rope(node: Tensor, x: Array, pos: Array, factors: Array | None = None) -> Array:
    """x [n3, n_tokens, n_head, n]; pos i32 [n_tokens], or 4 planes of it for the section modes."""
    return _turned(x, *_cos_sin(node.params, pos.reshape(-1, x.shape[1]), factors), node)


def rope_table(node: Tensor, pos: Array, factors: Array | None = None) -> Array:
    """[1, 1, n_tokens, row]: what is turned by, cos then sin, a value for each lane in NORMAL."""
    cos, sin = _cos_sin(node.params, pos.reshape(-1, node.ne[1]), factors)
    if node.params["mode"] == NORMAL:
        cos = cos.repeat(2, axis=1)
        sin = np.stack((-sin, sin), axis=2).reshape(cos.shape)
    return np.concatenate((cos, sin), axis=1)[None, None]


def rope_apply(node: Tensor, x: Array, table: Array) -> Array:
    cos, sin = np.split(table[0, 0], 2, axis=1)
    if node.params["mode"] == NORMAL:
        cos, sin = cos[:, ::2], sin[:, 1::2]
    return _turned(x, cos, sin, node)


def _cos_sin(p: dict[str, Any], pos: Array, factors: Array | None) -> tuple[Array, Array]:
    """[n_tokens, n_pairs] each, in float64"""
    n_pairs = p["n_dims"] if p["mode"] == VISION else p["n_dims"] // 2
    theta = angles(p, n_pairs, pos, factors)
    mscale = p["attn_factor"]
    if p["ext_factor"] != 0:
        mscale *= 1 + 0.1 * math.log(1 / p["freq_scale"])
    return np.cos(theta) * mscale, np.sin(theta) * mscale


def _turned(x: Array, cos: Array, sin: Array, node: Tensor) -> Array:
    n_pairs = cos.shape[1]
    cos, sin = (v.astype(x.dtype)[:, None, :] for v in (cos, sin))  # [n_tokens, 1, n_pairs]
    if node.params["mode"] == NORMAL:
        first, second = slice(0, 2 * n_pairs, 2), slice(1, 2 * n_pairs, 2)
    else:
        first, second = slice(0, n_pairs), slice(n_pairs, 2 * n_pairs)
    out = x.copy()
    a, b = x[..., first], x[..., second]
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos
    return out


def angles(p: dict[str, Any], n_pairs: int, pos: Array, factors: Array | None) -> Array:
    """Angle per token and pair in float64, [n_tokens, n_pairs]; `pos` is i32 [1 or 4, n_tokens]."""
    axis, exponent = _sections(p["mode"], p["sections"], n_pairs)
    freq = p["freq_base"] ** (-2.0 * exponent / p["n_dims"])
    theta = pos[axis].T * freq
    if factors is not None:
        theta = theta / factors.reshape(-1)[:n_pairs]
    scaled = theta * p["freq_scale"]
    if p["ext_factor"] == 0:
        return scaled
    low = max(0.0, math.floor(_pair_turning(p, p["beta_fast"])))
    high = min(p["n_dims"] - 1.0, math.ceil(_pair_turning(p, p["beta_slow"])))
    ramp = 1 - np.clip((np.arange(n_pairs) - low) / max(0.001, high - low), 0, 1)
    mix = ramp * p["ext_factor"]
    return scaled * (1 - mix) + theta * mix


def _pair_turning(p: dict[str, Any], turns: float) -> float:
    """The pair that turns `turns` times over the original context."""
    span = p["n_ctx_orig"] / (turns * 2 * math.pi)
    return float(p["n_dims"] * math.log(span) / (2 * math.log(p["freq_base"])))


def _sections(mode: int, sections: list[int], n_pairs: int) -> tuple[Array, Array]:
    """Per pair: which position it turns by (time, height, width, extra), and its exponent."""
    i = np.arange(n_pairs)
    if mode in (NORMAL, NEOX):
        return np.zeros(n_pairs, np.int64), i
    k = i % sum(sections)
    if mode == IMROPE:
        turn = k % 3
        return np.where(k < 3 * np.asarray(sections)[turn], turn, 3), i
    ends = np.cumsum(sections)
    axis = np.minimum(np.searchsorted(ends, k, side="right"), 3)
    if mode == VISION:
        return axis, k - (ends - sections)[axis]
    return axis, i
