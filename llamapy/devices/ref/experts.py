"""Mixture of experts: what choosing, multiplying and summing mean. Tokens are the slowest axis."""

from __future__ import annotations

import numpy as np

from llamapy.devices.ref.memory import Array
from llamapy.graph.tensor import Tensor


def check_ids(ids: Array, n_rows: int, node: Tensor) -> None:
    if ids.size and not 0 <= ids.min() <= ids.max() < n_rows:
        raise IndexError(f"{node.name}: a row index outside 0..{n_rows - 1}")


def top_k_ids(node: Tensor, scores: Array) -> Array:
    """scores [1, 1, n_tokens, n_expert]: the k largest, of equal ones the first. Of n_group groups
    those count whose two largest scores have the largest sums (DeepSeek-V3, section 2.1.2)."""
    k, n_group, n_used = (node.params[name] for name in ("k", "n_group", "n_group_used"))
    scores = np.where(np.isnan(scores), -np.inf, scores)
    groups = scores.reshape(*scores.shape[:-1], n_group, -1)
    sums = np.sort(groups, axis=-1)[..., -2:].sum(-1)
    out = np.argsort(-sums, axis=-1, kind="stable")[..., n_used:]
    excluded = np.zeros(sums.shape, bool)
    np.put_along_axis(excluded, out, True, axis=-1)
    behind = np.repeat(excluded, groups.shape[-1], axis=-1)  # after all others, even -inf
    order = np.lexsort((-scores, behind), axis=-1)
    return order[..., :k]


def highest(node: Tensor, x: Array, never: Array | None = None) -> Array:
    """x [1, 1, n_rows, n], never [1, 1, 1, n_never]: where each row's highest is, those left out,
    [1, 1, 1, n_rows]."""
    broken = ~(x < np.inf).all(axis=-1, keepdims=True)
    if never is not None:
        x = x.copy()
        x[..., [int(i) for i in never.reshape(-1) if 0 <= i < x.shape[-1]]] = -np.inf
    at = np.where(np.isnan(x), -np.inf, x).argmax(axis=-1, keepdims=True)
    none = broken | (np.take_along_axis(x, at, axis=-1) == -np.inf)
    return np.where(none, -1, at).reshape(1, 1, 1, -1)


def highest_sum(
    node: Tensor, main: Array, w: Array, x: Array, length: Array, never: Array | None = None
) -> Array:
    """main [1, 1, n, m], w [1, 1, m, k], x [1, 1, n, k]: [1, 1, 1, n]."""
    return highest(node, main + x @ w.swapaxes(-1, -2), never)


def take_ids(node: Tensor, values: Array, ids: Array) -> Array:
    check_ids(ids, values.shape[-1], node)
    return np.take_along_axis(values, ids, axis=-1)


def mul_mat_id(node: Tensor, w: Array, x: Array, ids: Array) -> Array:
    """w [1, n_expert, m, k], x [b3, b2, n_used or 1, k], ids [1, 1, n_tokens, n_used]:
    [1, n_tokens, n_used, m]."""
    check_ids(ids, w.shape[1], node)
    x = x.reshape(1, -1, *x.shape[2:])
    y = np.empty((1, *ids.shape[2:], w.shape[2]), x.dtype)
    for t, used in np.ndindex(*ids.shape[2:]):
        y[0, t, used] = w[0, ids[0, 0, t, used]] @ x[0, t, used % x.shape[2]]
    return y


def add_id(node: Tensor, x: Array, bias: Array, ids: Array) -> Array:
    """x [1, n_tokens, n_used, m], bias [1, 1, n_expert, m]."""
    check_ids(ids, bias.shape[2], node)
    return x + bias[0, 0][ids[0]]


def weighted_sum(node: Tensor, x: Array, weights: Array | None = None) -> Array:
    """x [1, n_tokens, k, n], weights [1, 1, n_tokens, k]: [1, 1, n_tokens, n]."""
    if weights is not None:
        x = x * weights[0][..., None]
    return x.sum(axis=2)[None]
