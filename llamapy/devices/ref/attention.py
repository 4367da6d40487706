"""Attention over lists of cells: ARCHITECTURE.md, "Attention without masks"."""

from __future__ import annotations

import math

import numpy as np

from llamapy.devices.ref.memory import Array
from llamapy.graph.tensor import Tensor

TILE = 64


def slopes(n_head: int, max_bias: float) -> Array:
    """ALiBi (Press et al. 2021) per head; all 0 without a bias."""
    if max_bias <= 0:
        return np.zeros(n_head)
    n = 1 << int(math.log2(n_head))
    h = np.arange(n_head)
    even, odd = 2.0 ** (-max_bias / n), 2.0 ** (-max_bias / 2 / n)
    return np.where(h < n, even ** (h + 1.0), odd ** (2.0 * (h - n) + 1))


def _more(found: tuple[Array, ...]) -> tuple[Array | None, Array | None]:
    """Bias [2 reach + 1, n_head] and sinks [n_head] among the last sources."""
    bias = [x[0, 0] for x in found if x.shape[-2] > 1]
    sinks = [x.reshape(-1) for x in found if x.shape[-2] == 1]
    return bias[0] if bias else None, sinks[0] if sinks else None


def _scores(
    node: Tensor, q: Array, k: Array, bias: Array | None, cells: Array, places: Array, own: int
) -> Array:
    """Scaled, capped and biased products of one query's heads q [n_head, n] with its cells of
    k [n_cells, n_head_kv, n]: [n_head, n_places]."""
    p = node.params
    n_head, n_head_kv = q.shape[0], k.shape[1]
    keys = np.repeat(k[cells], n_head // n_head_kv, axis=1)  # [n_places, n_head, n]
    s = np.einsum("hd,jhd->hj", q, keys) * p["scale"]
    if p["softcap"]:
        s = p["softcap"] * np.tanh(s / p["softcap"])
    far = -np.abs(places - own).astype(q.dtype)
    s = s + slopes(n_head, p["max_bias"])[:, None].astype(q.dtype) * far
    if bias is None:
        return s
    reach = len(bias) // 2
    return s + bias[np.clip(places - own, -reach, reach) + reach].T


def _visible(idx: Array, seen: Array) -> tuple[Array, Array]:
    """Cells and places that a token with `range` row `seen` sees."""
    which, lo, hi = (int(n) for n in seen[:3])
    places = np.arange(max(lo, 0), min(hi, idx.shape[-1]))
    cells = idx[which, places]
    return cells[cells >= 0], places[cells >= 0]


def flash_attn_part(
    node: Tensor, q: Array, k: Array, v: Array, idx: Array, seen: Array, *more: Array
) -> Array:
    """[n_tokens, n_head, n_tiles, n_embd_head_v + 2]: the sum of exp(s - m) v, then m, then the sum
    of exp(s - m), where m is the tile's largest score; 0, -inf, 0 where nothing is visible."""
    q, k, v, idx, seen = q[0], k[0], v[0], idx[0, 0], seen[0, 0]
    bias, _ = _more(more)
    n_tokens, n_head, _ = q.shape
    n = v.shape[-1]
    out = np.zeros((n_tokens, n_head, idx.shape[-1] // TILE, n + 2), q.dtype)
    out[..., n] = -np.inf
    for t in range(n_tokens):
        cells, places = _visible(idx, seen[t])
        s = _scores(node, q[t], k, bias, cells, places, int(seen[t, 3]))
        for tile in np.unique(places // TILE):
            here = places // TILE == tile
            m = s[:, here].max(axis=1)
            e = np.exp(s[:, here] - m[:, None])
            values = np.repeat(v[cells[here]], n_head // v.shape[1], axis=1)
            out[t, :, tile, :n] = np.einsum("hj,jhd->hd", e, values)
            out[t, :, tile, n] = m
            out[t, :, tile, n + 1] = e.sum(axis=1)
    return out


def flash_attn_merge(node: Tensor, parts: Array, sinks: Array | None = None) -> Array:
    """Joins the tiles, and the sink as a tile of weight 1 and value 0: [n_tokens, n_head * n]."""
    o, m, total = parts[..., :-2], parts[..., -2], parts[..., -1]  # [n_tokens, n_head, n_tiles]
    n_tokens, n_head = m.shape[:2]
    if sinks is not None:
        sink = np.broadcast_to(sinks.reshape(1, n_head, 1), (n_tokens, n_head, 1))
        m = np.concatenate((m, sink), axis=2)
        total = np.concatenate((total, np.ones_like(sink)), axis=2)
        o = np.concatenate((o, np.zeros_like(o[:, :, :1])), axis=2)
    most = m.max(axis=2, keepdims=True, initial=-np.inf)
    weight = np.exp(m - np.where(np.isinf(most), 0, most))
    top = (o * weight[..., None]).sum(axis=2)
    bottom = (total * weight).sum(axis=2)[..., None]
    out = np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
    return out.reshape(1, 1, n_tokens, -1)


def flash_attn(
    node: Tensor, q: Array, k: Array, v: Array, idx: Array, seen: Array, *more: Array
) -> Array:
    """Softmax over all visible places at once."""
    q, k, v, idx, seen = q[0], k[0], v[0], idx[0, 0], seen[0, 0]
    bias, sinks = _more(more)
    n_tokens, n_head, _ = q.shape
    out = np.zeros((n_tokens, n_head, v.shape[-1]), q.dtype)
    for t in range(n_tokens):
        cells, places = _visible(idx, seen[t])
        if not len(cells):
            continue
        s = _scores(node, q[t], k, bias, cells, places, int(seen[t, 3]))
        m = s.max(axis=1)
        if sinks is not None:
            m = np.maximum(m, sinks)
        e = np.exp(s - m[:, None])
        total = e.sum(axis=1)
        if sinks is not None:
            total = total + np.exp(sinks - m)
        values = np.repeat(v[cells], n_head // v.shape[1], axis=1)
        out[t] = np.einsum("hj,jhd->hd", e, values) / total[:, None]
    return out.reshape(1, 1, n_tokens, -1)
