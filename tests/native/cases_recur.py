"""Operands for the recurrent families: several runs in one batch, fresh ones, one without tokens,
views with gaps.

`State` holds the arrays of one call as numpy shows them, the state first; what a test wants to cut
along the tokens it finds through `tokens`, the axis that counts them in each operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from cases_rows import gaps, plain
from harness import Case, operand, params, result

from llamapy.ffi.lib import KernelRow

Rng = np.random.Generator
Array = np.ndarray
N_CELLS = 6
RUNS = ((0, 3, 2, 4), (3, 1, -1, 0), (9, 0, 2, 1), (4, 5, -1, 3), (0, 0, -1, -1))
N_TOKENS = 9


@dataclass
class Recur:
    """One call of an op. state [n_cells, ..]; `operands` in the op's order; `tokens`: which of them
    have a token axis (their first); `out`: the result's shape after the tokens."""

    op: str
    state: Array
    operands: list[Array]
    tokens: tuple[int, ...]
    out: tuple[int, ...]
    runs: Sequence[Sequence[int]] = RUNS
    given: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def n_tokens(self) -> int:
        return self.operands[self.tokens[0]].shape[0]

    def case(self) -> Case:
        srcs = [operand(x, 4) for x in (self.state, *self.operands)]
        srcs.append(operand(np.array(self.runs, np.int32), 4))
        dst = result("f32", (*self.out[::-1], self.n_tokens))
        ip, fp = params(self.op, **self.given)
        return Case(srcs, dst, ip, fp, also=(0,), name=self.name)

    def part(self, state: Array, first: int, n: int, read: int, write: int) -> Recur:
        """Tokens [first, first + n) alone, as one run."""
        operands = [
            x[first : first + n] if i in self.tokens else x for i, x in enumerate(self.operands)
        ]
        return replace(self, state=state, operands=operands, runs=[(0, n, read, write)])


def ssm_conv(rng: Rng, d_conv: int, n_ch: int, dilation: int = 1) -> Recur:
    state = plain(rng, N_CELLS, n_ch, (d_conv - 1) * dilation)
    operands = [gaps(rng, N_TOKENS, n_ch), plain(rng, n_ch, d_conv)]
    given, name = {"dilation": dilation}, f"{d_conv} {n_ch} {dilation}"
    return Recur("ssm_conv", state, operands, (0,), (n_ch,), given=given, name=name)


def ssm_scan(
    rng: Rng, d_state: int, d_head: int, n_head: int, n_group: int, per_state: bool
) -> Recur:
    """x, B and C are views of one activation, as Mamba 2 has them."""
    n, wide = n_group * d_state, d_head * n_head
    xbc = plain(rng, N_TOKENS, wide + 2 * n + 5)
    x = xbc[:, :wide].reshape(N_TOKENS, n_head, d_head)
    b, c = (xbc[:, at : at + n].reshape(N_TOKENS, n_group, d_state) for at in (wide, wide + n))
    dt = gaps(rng, N_TOKENS, n_head, scale=3.0)
    dt[0, 0], dt[1, 0] = 25.0, -30.0
    a = -np.exp(plain(rng, n_head, d_state if per_state else 1, scale=1.0))
    state = plain(rng, N_CELLS, n_head, d_head, d_state)
    name = f"{d_state} {d_head} {n_head} {n_group} {per_state}"
    return Recur("ssm_scan", state, [x, dt, a, b, c], (0, 1, 3, 4), (wide,), name=name)


def unit(x: Array) -> Array:
    norm: Array = x / np.sqrt((x * x).sum(axis=-1, keepdims=True))
    return norm.astype(np.float32)


def gated_delta_net(
    rng: Rng, d_k: int, d_v: int, n_head_k: int, n_head: int, per_channel: bool, tiled: int
) -> Recur:
    whole = unit(plain(rng, N_TOKENS, 2 * n_head_k, d_k))
    q, k = whole[:, :n_head_k], whole[:, n_head_k:]
    v = gaps(rng, N_TOKENS, n_head, d_v)
    shape = (N_TOKENS, n_head, d_k) if per_channel else (N_TOKENS, n_head)
    g = -np.abs(gaps(rng, *shape, scale=0.5))
    beta = rng.uniform(0, 1, (N_TOKENS, n_head)).astype(np.float32)
    state = plain(rng, N_CELLS, n_head, d_v, d_k)
    given = {"tiled": tiled, "scale": d_k**-0.5}
    name = f"{d_k} {d_v} {n_head_k} {n_head} {per_channel} {tiled}"
    operands = [q, k, v, g, beta]
    return Recur(
        "gated_delta_net", state, operands, (0, 1, 2, 3, 4), (n_head, d_v), given=given, name=name
    )


def token_shift(rng: Rng, n: int) -> Recur:
    return Recur("token_shift", plain(rng, N_CELLS, n), [gaps(rng, N_TOKENS, n)], (0,), (n,))


def vector(rng: Rng, n_head: int, width: int) -> Array:
    return unit(gaps(rng, N_TOKENS, n_head, width))


def between(rng: Rng, *shape: int) -> Array:
    """Decays."""
    return rng.uniform(0.3, 1, shape).astype(np.float32)


def gated_linear_attn(rng: Rng, d_k: int, d_v: int, n_head: int, per_channel: bool) -> Recur:
    q, k, v = (vector(rng, n_head, w) for w in (d_k, d_k, d_v))
    decay = between(rng, *((N_TOKENS, n_head, d_k) if per_channel else (n_head,)))
    state = plain(rng, N_CELLS, n_head, d_v, d_k)
    name, tokens = f"{d_k} {d_v} {n_head} {per_channel}", (0, 1, 2, 3) if per_channel else (0, 1, 2)
    given = {"scale": 0.3}
    return Recur(
        "gated_linear_attn", state, [q, k, v, decay], tokens, (n_head, d_v), given=given, name=name
    )


def rwkv_wkv6(rng: Rng, d_k: int, d_v: int, n_head: int) -> Recur:
    r, k, v = (vector(rng, n_head, w) for w in (d_k, d_k, d_v))
    w, u = between(rng, N_TOKENS, n_head, d_k), gaps(rng, n_head, d_k)
    state = plain(rng, N_CELLS, n_head, d_v, d_k)
    name = f"{d_k} {d_v} {n_head}"
    return Recur("rwkv_wkv6", state, [r, k, v, w, u], (0, 1, 2, 3), (n_head, d_v), name=name)


def rwkv_wkv7(rng: Rng, d_k: int, d_v: int, n_head: int) -> Recur:
    """As the model has them: a is minus a unit vector, b that vector times a rate."""
    r, k, v = (vector(rng, n_head, w) for w in (d_k, d_k, d_v))
    w, kk = between(rng, N_TOKENS, n_head, d_k), vector(rng, n_head, d_k)
    b = kk * between(rng, N_TOKENS, n_head, d_k)
    state = plain(rng, N_CELLS, n_head, d_v, d_k)
    name, operands = f"{d_k} {d_v} {n_head}", [r, w, k, v, -kk, b]
    return Recur("rwkv_wkv7", state, operands, tuple(range(6)), (n_head, d_v), name=name)


def calls(rng: Rng, op: str) -> list[Recur]:
    """Small, and of the sizes that models have."""
    if op == "ssm_conv":
        sizes = ((4, 40), (4, 64), (3, 17), (2, 1), (8, 5), (4, 35, 3), (4, 16, 8), (2, 7, 2))
        return [ssm_conv(rng, *s) for s in sizes]
    if op == "ssm_scan":
        sizes = ((16, 1, 40, 1), (128, 36, 2, 1), (7, 3, 6, 2), (16, 64, 4, 2), (1, 1, 3, 3))
        return [ssm_scan(rng, *s, per) for s in sizes for per in (False, True)]
    if op == "gated_delta_net":
        sizes = ((128, 40, 1, 2), (16, 16, 2, 4), (33, 5, 3, 3), (1, 1, 1, 2))
        forms = ((False, 0), (True, 0), (False, 1), (True, 1))
        return [gated_delta_net(rng, *s, *form) for s in sizes for form in forms]
    if op == "token_shift":
        return [token_shift(rng, n) for n in (1, 40, 1024, 2500)]
    heads = ((64, 64, 3), (16, 37, 2), (128, 5, 1), (33, 16, 1), (1, 1, 1))
    if op == "gated_linear_attn":
        return [gated_linear_attn(rng, *s, per) for s in heads for per in (False, True)]
    make = {"rwkv_wkv6": rwkv_wkv6, "rwkv_wkv7": rwkv_wkv7}[op]
    return [make(rng, *s) for s in heads]


FAMILIES = (
    "ssm_conv", "ssm_scan", "gated_delta_net", "token_shift", "gated_linear_attn", "rwkv_wkv6",
    "rwkv_wkv7",
)  # fmt: skip


def generate(rng: Rng, row: KernelRow) -> list[Case]:
    return [call.case() for call in calls(rng, row.family)]


CASES = {name: generate for name in FAMILIES}
