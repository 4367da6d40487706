"""Operands for mixtures of experts: few pairs of (used, token) and many, experts nobody wants,
experts named twice, one column a token or one for every use, gaps."""

from __future__ import annotations

import numpy as np
from cases_matmul import Rng, activations, lengths, rows_of, weights, wide
from cases_rows import gaps, plain, same_as
from harness import Case, Operand, operand, params, result
from quant_data import FLOATS

from llamapy.devices.ref.interleaved import is_interleaved
from llamapy.ffi.lib import KernelRow


def columns(x: Operand, n_used: int, n_tokens: int) -> Operand:
    """Rows [k, n_used * n_tokens] as [k, n_used, n_tokens]."""
    nb = x.nb[1]
    ne = (x.ne[0], n_used, n_tokens, 1)
    return Operand(x.type, ne, (x.nb[0], nb, nb * n_used, nb * n_used * n_tokens), x.data, 0, 4)


def routes(rng: Rng, n_expert: int, n_used: int, n_tokens: int) -> np.ndarray:
    """[n_tokens, n_used], different for one token; the first tokens all want the same."""
    ids = np.stack([rng.permutation(n_expert)[:n_used] for _ in range(n_tokens)])
    ids[: n_tokens // 2] = ids[0]
    return ids.astype(np.int32)


def mul_mat_id(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    shapes = [(9, 5, 2, 1), (35, 3, 3, 1), (40, 4, 2, 13), (33, 6, 1, 4), (7, 1, 1, 2)]
    if row.wtype in FLOATS:  # more columns of an expert than are widened for at once
        shapes.append((9, 1, 1, 270))
    for i, (m, n_expert, n_used, n_tokens) in enumerate(shapes):
        k, m = lengths(row.wtype)[i % len(lengths(row.wtype))], rows_of(row.wtype, m)
        w = weights(rng, row.wtype, (k, m, n_expert))
        for each in (1, n_used):
            x = columns(activations(rng, row.xtype, each * n_tokens, k), each, n_tokens)
            ids = operand(routes(rng, n_expert, n_used, n_tokens))
            dst = result("f32", (m, n_used, n_tokens))
            name = f"k={k} m={m} {n_used} of {n_expert}, {n_tokens} tokens, {each}"
            cases.append(Case([w, x, ids], dst, name=name))
    return cases + gapped(rng, row)


def gapped(rng: Rng, row: KernelRow) -> list[Case]:
    """Gaps behind the rows of every operand, and two uses of one expert by one token."""
    k, m = lengths(row.wtype)[1], rows_of(row.wtype, 11)
    gap = 0 if is_interleaved(row.wtype) else 4 if row.wtype == "f32" else 6
    w = wide(weights(rng, row.wtype, (k, m, 3)), gap)
    x = wide(columns(activations(rng, row.xtype, 10, k), 2, 5), 36)
    ids = np.array([[2, 2], [0, 2], [2, 0], [0, 0], [2, 2]], np.int32)
    dst = wide(result("f32", (m, 2, 5)), 12)
    return [Case([w, x, operand(ids)], dst, name="gaps")]


def top_k_ids(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for n_expert, n_tokens, k, n_group, n_used in (
        (1, 1, 1, 1, 1), (8, 5, 2, 1, 1), (60, 3, 4, 1, 1), (256, 2, 8, 8, 4), (12, 9, 3, 4, 1),
        (6, 4, 3, 6, 3),
    ):  # fmt: skip
        for name, scores in (
            ("random", gaps(rng, n_tokens, n_expert)),
            ("ties", rng.integers(0, 3, (n_tokens, n_expert)).astype(np.float32)),
        ):
            ip, fp = params("top_k_ids", k=k, n_group=n_group, n_group_used=n_used)
            dst = result("i32", (k, n_tokens))
            what = f"{k} of {n_expert} in {n_group}, {n_tokens} tokens, {name}"
            cases.append(Case([operand(scores)], dst, ip, fp, name=what))
    edge = np.array([[0.0, -0.0, np.nan, -np.inf, np.inf, 1e-45, -1e-45, np.nan]], np.float32)
    ip, fp = params("top_k_ids", k=8, n_group=1, n_group_used=1)
    cases.append(Case([operand(edge)], result("i32", (8, 1)), ip, fp, name="edges"))
    return cases


def highest(rng: Rng, row: KernelRow) -> list[Case]:
    few = np.array([-np.inf, -2.5, -0.0, 0.0, 1e-45, 1.5, np.inf, np.nan], np.float32)
    cases = []
    for n, n_rows in ((1, 1), (1, 9), (63, 3), (64, 2), (65, 33), (300, 5), (4099, 2)):
        for most in (6, 7, 8):  # with infinities, with NaN
            x = few[rng.integers(0, most, (n_rows, n))]
            cases.append(Case([operand(x)], result("i32", (n_rows,)), name=f"{most}, {n} {n_rows}"))
        rising = np.sort(gaps(rng, n_rows, n), axis=1)
        for name, x in (("rising", rising), ("falling", rising[:, ::-1].copy())):
            for never in ([], [n // 2], [-1, 0, n - 1, n]):  # few of them are places
                srcs = [operand(x), *([operand(np.array(never, np.int32))] if never else [])]
                dst = result("i32", (n_rows,))
                cases.append(Case(srcs, dst, name=f"{name}, {n} {n_rows}, {len(never)}"))
    return cases


def highest_sum(rng: Rng, row: KernelRow) -> list[Case]:
    """Lengths that let rows be passed over, too short ones even; lengths nobody knows; gaps."""
    cases = []
    for i, (m, n) in enumerate(((1, 1), (9, 2), (64, 3), (139, 2), (700, 1))):
        k, m = lengths(row.wtype)[i % len(lengths(row.wtype))], rows_of(row.wtype, m)
        w, x = weights(rng, row.wtype, (k, m)), activations(rng, "x8", n, k)
        main = wide(operand(rng.standard_normal((n, m)).astype(np.float32)), 12)
        for length in (0.01, 3.0, np.nan):
            known = operand((rng.random(m) * length).astype(np.float32))
            more = [operand(np.array([0, m // 2], np.int32))] if i % 2 else []
            ip, fp = params("highest_sum", longest=length)
            srcs = [main, w, wide(x, 36), known, *more]
            case = Case(srcs, result("i32", (n,)), ip, fp, name=f"k={k} m={m} n={n} {length}")
            cases.append(case)
    return cases


def take_ids(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for n_expert, k, n_tokens in ((1, 1, 1), (8, 2, 5), (64, 6, 33)):
        values = operand(gaps(rng, n_tokens, n_expert))
        ids = operand(routes(rng, n_expert, k, n_tokens))
        cases.append(Case([values, ids], result("f32", (k, n_tokens)), name=f"{k} of {n_expert}"))
    return cases


def add_id(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for m, n_used, n_tokens in ((1, 1, 1), (35, 2, 7), (200, 4, 3)):
        x, bias = operand(gaps(rng, n_tokens, n_used, m)), operand(gaps(rng, 5, m))
        ids = operand(routes(rng, 5, n_used, n_tokens))
        cases.append(Case([x, bias, ids], result("f32", x.ne), name=f"{m} {n_used} {n_tokens}"))
    x = operand(plain(rng, 3, 2, 40))
    srcs = [x, operand(gaps(rng, 5, 40)), operand(routes(rng, 5, 2, 3))]
    cases.append(Case(srcs, same_as(x), alias=0, name="in-place"))
    return cases


def weighted_sum(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for n, k, n_tokens in ((1, 1, 1), (35, 2, 7), (640, 8, 3), (16, 6, 1)):
        x, w = operand(gaps(rng, n_tokens, k, n)), operand(gaps(rng, n_tokens, k))
        for srcs in ([x, w], [x]):
            dst = result("f32", (n, n_tokens))
            cases.append(Case(srcs, dst, name=f"{n} {k} {n_tokens}, {len(srcs)}"))
    return cases


def concat(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for axis in range(4):
        for a, b in ((1, 1), (3, 7), (67, 130)):
            ne = [70, 3, 2, 2] if a < 60 else [2, 2, 1, 1]
            parts = []
            for n in (a, b):
                ne[axis] = n
                parts.append(operand(gaps(rng, *ne[::-1])))
            ne[axis] = a + b
            case = Case(parts, result("f32", ne), [axis], name=f"{a} and {b} on axis {axis}")
            cases.append(case)
    turned = operand(gaps(rng, 4, 9).transpose(1, 0))  # axis 0 has gaps
    srcs = [turned, operand(plain(rng, 9, 5))]
    cases.append(Case(srcs, result("f32", (9, 9)), [0], name="permuted"))
    return cases


CASES = {
    "mul_mat_id": mul_mat_id,
    "highest": highest,
    "highest_sum": highest_sum,
    "top_k_ids": top_k_ids,
    "take_ids": take_ids,
    "add_id": add_id,
    "weighted_sum": weighted_sum,
    "concat": concat,
}
