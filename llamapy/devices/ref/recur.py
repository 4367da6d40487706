"""What the recurrent ops mean: one token after the other, as their papers write them.

Arrays have the slowest axis first, so a state is [n_cells, ..]. The functions write the cells of
the state they are given; `runs` [1, 1, n_runs, 4] holds first token, number of tokens, cell to read
(-1: zeros), cell to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from llamapy.devices.ref.memory import Array
from llamapy.graph.tensor import Tensor


def softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _walk(node: Tensor, cells: Array, runs: Array, n_tokens: int) -> Iterator[tuple[Any, range]]:
    """Per run: its state, a copy to be changed while the generator waits, and its tokens. What the
    state is by then goes into the cell to write."""
    runs = runs[0, 0]
    n_cells = len(cells)
    covered = np.zeros(n_tokens, int)
    for first, n, read, write in runs:
        outside = not -1 <= read < n_cells or not (-1 if n == 0 else 0) <= write < n_cells
        if outside or min(first, n) < 0 or first + n > n_tokens:
            raise IndexError(f"{node.name}: run {first} {n} {read} {write} is out of range")
        covered[first : first + n] += 1
    if (covered != 1).any():
        raise IndexError(f"{node.name}: runs do not cover every token once")
    written = []
    for first, n, read, write in runs:
        state = cells[read].copy() if read >= 0 else np.zeros_like(cells[0])
        yield state, range(first, first + n)
        written.append((write, state))
    for write, state in written:
        if write >= 0:
            cells[write] = state


def ssm_conv(node: Tensor, state: Array, x: Array, weight: Array, runs: Array) -> Array:
    """state [n_cells, n_ch, (d_conv - 1) * dilation], x [T, n_ch], weight [n_ch, d_conv]: y[t] is
    the sum over taps of weight[tap] * x[t - (d_conv - 1 - tap) * dilation]."""
    x, weight, cells = x[0, 0], weight[0, 0], state[0]
    y = np.empty_like(x)
    for taps, tokens in _walk(node, cells, runs, len(x)):
        for t in tokens:
            seen = np.concatenate((taps, x[t][:, None]), axis=1)
            y[t] = (seen[:, :: node.params["dilation"]] * weight).sum(axis=1)
            taps[...] = seen[:, 1:]
    return y


def ssm_scan(
    node: Tensor, state: Array, x: Array, dt: Array, a: Array, b: Array, c: Array, runs: Array
) -> Array:
    """h' = h exp(dt A) + B (x dt), y = sum over d_state of h' C, with dt = softplus(dt) (Gu and Dao
    2023, "Mamba", section 3; Dao and Gu 2024 for one A a head). state [n_cells, n_head, d_head,
    d_state], x [T, n_head, d_head], a [n_head, d_state or 1], b and c [T, n_group, d_state]."""
    x, a, b, c = x[0], a[0, 0], b[0], c[0]
    dt = softplus(dt[0, 0])
    n_tokens, n_head, _ = x.shape
    share = n_head // b.shape[1]
    y = np.empty_like(x)
    for h, tokens in _walk(node, state, runs, n_tokens):
        for t in tokens:
            bt, ct = (np.repeat(z[t], share, axis=0)[:, None] for z in (b, c))
            h *= np.exp(dt[t][:, None] * a)[:, None]
            h += bt * (x[t] * dt[t][:, None])[..., None]
            y[t] = (h * ct).sum(axis=-1)
    return y


Step = Callable[[Array, int], Array]


def _heads(node: Tensor, state: Array, v: Array, runs: Array, step: Step) -> Array:
    """`step` changes the states [n_head, d_v, d_k] of a token and gives its rows [n_head, d_v]."""
    y = np.empty_like(v[0])
    for s, tokens in _walk(node, state, runs, v.shape[1]):
        for t in tokens:
            y[t] = step(s, t)
    return y


def gated_delta_net(
    node: Tensor, state: Array, q: Array, k: Array, v: Array, g: Array, beta: Array, runs: Array
) -> Array:
    """S = S diag(exp(g)), d = beta (v - S k), S += d k^T, o = scale S q (Yang et al. 2024, "Gated
    delta networks"; g per channel: Kimi Linear, 2025). state [n_cells, n_head_v, d_v, d_k], q and k
    [T, n_head_k, d_k]. v's head h looks at k's head h // r, or h % n_head_k where `tiled`."""
    n_head = v.shape[2]
    heads = np.arange(n_head)
    at = heads % k.shape[2] if node.params["tiled"] else heads // (n_head // k.shape[2])
    per_head = g.shape[:2] == (1, 1) and g.shape[2:] == v.shape[1:3]
    decay = np.exp(g[0, 0][..., None] if per_head else g[0])

    def step(s: Array, t: int) -> Array:
        kt, qt = k[0, t, at], q[0, t, at]
        s *= decay[t][:, None, :]
        d = (v[0, t] - (s * kt[:, None]).sum(axis=-1)) * beta[0, 0, t][:, None]
        s += d[..., None] * kt[:, None]
        rows: Array = (s * qt[:, None]).sum(axis=-1) * node.params["scale"]
        return rows

    return _heads(node, state, v, runs, step)


def token_shift(node: Tensor, state: Array, x: Array, runs: Array) -> Array:
    """state [n_cells, n], x [T, n]: the token before."""
    x, y = x[0, 0], np.empty_like(x[0, 0])
    for before, tokens in _walk(node, state[0, 0], runs, len(x)):
        for t in tokens:
            y[t] = before
            before[...] = x[t]
    return y


def gated_linear_attn(
    node: Tensor, state: Array, q: Array, k: Array, v: Array, decay: Array, runs: Array
) -> Array:
    """S = S diag(decay) + v k^T, o = scale S q (Yang et al. 2023, "Gated linear attention"; one
    decay a head: Qin et al. 2024, "Lightning attention 2")."""
    n_head = v.shape[2]
    per_head = decay.shape == (1, 1, 1, n_head)
    w = np.broadcast_to(decay[0, 0, 0][:, None] if per_head else decay[0], q.shape[1:])

    def step(s: Array, t: int) -> Array:
        s *= w[t][:, None]
        s += v[0, t][..., None] * k[0, t][:, None]
        rows: Array = (s * q[0, t][:, None]).sum(axis=-1) * node.params["scale"]
        return rows

    return _heads(node, state, v, runs, step)


def rwkv_wkv6(
    node: Tensor, state: Array, r: Array, k: Array, v: Array, w: Array, u: Array, runs: Array
) -> Array:
    """y = (S + v (u k)^T) r, S = S diag(w) + v k^T (Peng et al. 2024, "Eagle and Finch", 4.2)."""

    def step(s: Array, t: int) -> Array:
        kv = v[0, t][..., None] * k[0, t][:, None]
        rows: Array = ((s + u[0, 0][:, None] * kv) * r[0, t][:, None]).sum(axis=-1)
        s *= w[0, t][:, None]
        s += kv
        return rows

    return _heads(node, state, v, runs, step)


def rwkv_wkv7(
    node: Tensor, state: Array, r: Array, w: Array, k: Array, v: Array, a: Array, b: Array,
    runs: Array,
) -> Array:  # fmt: skip
    """S = S diag(w) + S a b^T + v k^T, y = S r (Peng et al. 2025, "RWKV-7 Goose", 4.1)."""

    def step(s: Array, t: int) -> Array:
        seen = (s * a[0, t][:, None]).sum(axis=-1)
        s *= w[0, t][:, None]
        s += seen[..., None] * b[0, t][:, None] + v[0, t][..., None] * k[0, t][:, None]
        rows: Array = (s * r[0, t][:, None]).sum(axis=-1)
        return rows

    return _heads(node, state, v, runs, step)


MEANING: dict[str, Callable[..., Array]] = {
    "ssm_conv": ssm_conv,
    "ssm_scan": ssm_scan,
    "gated_delta_net": gated_delta_net,
    "token_shift": token_shift,
    "gated_linear_attn": gated_linear_attn,
    "rwkv_wkv6": rwkv_wkv6,
    "rwkv_wkv7": rwkv_wkv7,
}
