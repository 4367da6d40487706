"""Shape rules of the recurrent ops.

Source 0 is the state, f32, its last axis counting cells; the op writes it (`Op.also_writes`). The
last source is `runs`, i32 [4, n_runs]: first token, number of tokens, the cell to read (-1: all
zeros), the cell to write. A run is one sequence's next tokens, side by side in the batch; runs
cover every token once and do not depend on each other: none reads what another writes. A run of no
tokens copies its state, or does nothing when the cell to write is -1.

Tokens are taken one after the other, so a prompt may be cut anywhere: the bits are the same. T is
the number of tokens.
"""

from __future__ import annotations

from typing import Any

from llamapy.base.types import F32, Type
from llamapy.graph.tensor import Shape, Tensor

Srcs = tuple[Tensor, ...]
Result = tuple[Type, Shape]


def _want(t: Tensor, what: str, *ne: int) -> None:
    shape = (*ne, 1, 1, 1)[:4]
    if t.ne != shape:
        raise ValueError(f"{what} {t.name} is {list(t.ne)}, not {list(shape)}")


def _runs(t: Tensor) -> None:
    if t.ne[0] != 4 or t.ne[1] < 1 or t.ne[2] * t.ne[3] != 1:
        raise ValueError(f"runs {t.name} is {list(t.ne)}, not [4, n_runs]")


def ssm_conv(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [(d_conv - 1) * dilation, n_ch, n_cells], x [n_ch, T], weight [d_conv, n_ch]: [n_ch,
    T]. Taps are `dilation` tokens apart, side by side where nothing is said."""
    dilation: int = p.setdefault("dilation", 1)
    state, x, weight, runs = srcs
    n_ch, n_tokens = x.ne[:2]
    _want(x, "x", n_ch, n_tokens)
    _want(weight, "weight", max(weight.ne[0], 2), n_ch)
    _want(state, "state", (weight.ne[0] - 1) * dilation, n_ch, state.ne[2])
    _runs(runs)
    return F32, (n_ch, n_tokens, 1, 1)


def token_shift(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [n, n_cells], x [n, T]: [n, T]."""
    state, x, runs = srcs
    _want(x, "x", *x.ne[:2])
    _want(state, "state", x.ne[0], state.ne[1])
    _runs(runs)
    return F32, x.ne


def ssm_scan(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [d_state, d_head, n_head, n_cells], x [d_head, n_head, T], dt [n_head, T], A [d_state
    or 1, n_head], B and C [d_state, n_group, T]: [d_head * n_head, T]."""
    state, x, dt, a, b, c, runs = srcs
    d_head, n_head, n_tokens = x.ne[:3]
    d_state, n_group = b.ne[:2]
    _want(x, "x", d_head, n_head, n_tokens)
    _want(state, "state", d_state, d_head, n_head, state.ne[3])
    _want(dt, "dt", n_head, n_tokens)
    _want(a, "A", 1 if a.ne[0] == 1 else d_state, n_head)
    _want(b, "B", d_state, n_group, n_tokens)
    _want(c, "C", d_state, n_group, n_tokens)
    if n_group < 1 or n_head % n_group:
        raise ValueError(f"{n_head} heads do not share {n_group} groups")
    _runs(runs)
    return F32, (d_head * n_head, n_tokens, 1, 1)


def gated_delta_net(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [d_k, d_v, n_head_v, n_cells], q and k [d_k, n_head_k, T], v [d_v, n_head_v, T], g
    [n_head_v, T] or [d_k, n_head_v, T], beta [n_head_v, T]: [d_v, n_head_v, T]."""
    state, q, k, v, g, beta, runs = srcs
    d_k, n_head_k, n_tokens = q.ne[:3]
    d_v, n_head = v.ne[:2]
    _want(state, "state", d_k, d_v, n_head, state.ne[3])
    _want(k, "k", d_k, n_head_k, n_tokens)
    _want(q, "q", d_k, n_head_k, n_tokens)
    _want(v, "v", d_v, n_head, n_tokens)
    _want(beta, "beta", n_head, n_tokens)
    if g.ne != (n_head, n_tokens, 1, 1):
        _want(g, "g", d_k, n_head, n_tokens)
    if n_head_k < 1 or n_head % n_head_k:
        raise ValueError(f"{n_head} heads of v do not share {n_head_k} heads of k")
    _runs(runs)
    return F32, (d_v, n_head, n_tokens, 1)


def _heads(state: Tensor, v: Tensor, runs: Tensor, **vectors: Tensor) -> Result:
    """v [d_v, n_head, T], and `vectors` [d_k, n_head, T] that go with it."""
    d_k, (d_v, n_head, n_tokens) = state.ne[0], v.ne[:3]
    _want(state, "state", d_k, d_v, n_head, state.ne[3])
    _want(v, "v", d_v, n_head, n_tokens)
    for what, t in vectors.items():
        _want(t, what, d_k, n_head, n_tokens)
    _runs(runs)
    return F32, (d_v, n_head, n_tokens, 1)


def gated_linear_attn(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [d_k, d_v, n_head, n_cells], q and k [d_k, n_head, T], v [d_v, n_head, T], decay
    [n_head] or [d_k, n_head, T]: [d_v, n_head, T]."""
    state, q, k, v, decay, runs = srcs
    if decay.ne == (v.ne[1], 1, 1, 1):
        return _heads(state, v, runs, q=q, k=k)
    return _heads(state, v, runs, q=q, k=k, decay=decay)


def rwkv_wkv6(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [d_k, d_v, n_head, n_cells], r and k [d_k, n_head, T], v [d_v, n_head, T], w [d_k,
    n_head, T], u [d_k, n_head]: [d_v, n_head, T]."""
    state, r, k, v, w, u, runs = srcs
    _want(u, "u", state.ne[0], v.ne[1])
    return _heads(state, v, runs, r=r, k=k, w=w)


def rwkv_wkv7(srcs: Srcs, p: dict[str, Any]) -> Result:
    """state [d_k, d_v, n_head, n_cells], r, w and k [d_k, n_head, T], v [d_v, n_head, T], a and b
    [d_k, n_head, T]: [d_v, n_head, T]."""
    state, r, w, k, v, a, b, runs = srcs
    return _heads(state, v, runs, r=r, w=w, k=k, a=a, b=b)
