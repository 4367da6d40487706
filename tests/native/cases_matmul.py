"""Operands for mul_mat and get_rows: odd rows and columns, gaps, broadcast weights, addends."""

from __future__ import annotations

import numpy as np
from harness import Case, Operand, operand, packed, result
from quant_data import (
    FLOATS,
    X8,
    extreme_weights,
    extreme_x8,
    random_weights,
    random_x8,
)

from llamapy.base.types import BY_NAME
from llamapy.devices.ref.interleaved import is_interleaved, plain
from llamapy.ffi.lib import KernelRow

Rng = np.random.Generator


def weights(rng: Rng, wtype: str, ne: tuple[int, ...]) -> Operand:
    """Aligned no better than its fields need: its last byte is the last one that may be read."""
    rows = int(np.prod(ne[1:]))
    return packed(random_weights(rng, wtype, rows, ne[0]), wtype, ne, 4 if wtype == "f32" else 2)


def activations(rng: Rng, xtype: str, n: int, k: int) -> Operand:
    if xtype == "x8":
        return packed(random_x8(rng, n, k).packed, "x8", (k, n), 4)
    return operand(rng.standard_normal((n, k)).astype(np.float32), 4)


def wide(o: Operand, gap_bytes: int) -> Operand:
    """The same matrix with a gap behind every row; the last row ends with the memory."""
    row = o.type.row_bytes(o.ne[0])
    rows = o.data.reshape(-1, row)
    data = np.pad(rows, ((0, 0), (0, gap_bytes)), constant_values=0x7E).reshape(-1)
    nb = row + gap_bytes
    n1, n2, n3 = o.ne[1:]
    strides = (o.nb[0], nb, nb * n1, nb * n1 * n2)
    return Operand(
        o.type, (o.ne[0], n1, n2, n3), strides, data[: len(data) - gap_bytes], 0, o.align
    )


def rows_of(wtype: str, m: int) -> int:
    """Interleaved rows come in eights."""
    return -(-m // 8) * 8 if is_interleaved(wtype) else m


def lengths(wtype: str) -> tuple[int, ...]:
    if wtype in FLOATS:
        return (1, 15, 16, 33, 100, 576)
    block = BY_NAME[plain(wtype)].block
    if block in (64, 128):
        return (block, 3 * block, 5 * block, 9 * block)
    return (256, 768, 1024) if block == 256 else (32, 96, 288, 576)


def mul_mat(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for k in lengths(row.wtype):
        for m, n in ((1, 1), (9, 1), (35, 2), (7, 3), (33, 4), (41, 5), (40, 15), (65, 11)):
            m = rows_of(row.wtype, m)
            w = weights(rng, row.wtype, (k, m))
            x = activations(rng, row.xtype, n, k)
            cases.append(Case([w, x], result("f32", (m, n)), name=f"k={k} m={m} n={n}"))
    more = outer(rng, row) + gapped(rng, row) + added(rng, row) + paired(rng, row)
    return cases + more + extremes(row) + many(rng, row)


def outer(rng: Rng, row: KernelRow) -> list[Case]:
    """Two matrices of weights over four by three of activations."""
    k = lengths(row.wtype)[-2]
    m = rows_of(row.wtype, 11)
    w = weights(rng, row.wtype, (k, m, 2))
    cases = []
    for n in (2, 6):
        x = activations(rng, row.xtype, n * 12, k)
        x = Operand(x.type, (k, n, 4, 3), (x.nb[0], x.nb[1], x.nb[1] * n, x.nb[1] * n * 4), x.data)
        cases.append(Case([w, x], result("f32", (m, n, 4, 3)), name=f"outer n={n}"))
    return cases


def gapped(rng: Rng, row: KernelRow) -> list[Case]:
    """Gaps behind the rows of every operand; of weights by a size no vector load is aligned to
    (interleaved rows have none)."""
    k, m, cases = lengths(row.wtype)[2], rows_of(row.wtype, 37), []
    for n in (3, 11):
        w = weights(rng, row.wtype, (k, m))
        x = activations(rng, row.xtype, n, k)
        dst = wide(result("f32", (m, n)), 12)
        gap = 0 if is_interleaved(row.wtype) else 4 if row.wtype == "f32" else 6
        cases.append(Case([wide(w, gap), wide(x, 36)], dst, name=f"gaps n={n}"))
    return cases


def added(rng: Rng, row: KernelRow) -> list[Case]:
    """A bias, a value per column, a residual with gaps, and a residual in dst's own memory."""
    k, m, cases = lengths(row.wtype)[1], rows_of(row.wtype, 43), []
    for n in (1, 3, 9):
        w = weights(rng, row.wtype, (k, m))
        x = activations(rng, row.xtype, n, k)
        full = operand(rng.standard_normal((n, m)).astype(np.float32))
        turned = operand(rng.standard_normal((m, n)).astype(np.float32))
        turned = Operand(turned.type, (m, n, 1, 1), (4 * n, 4, 4 * n * m, 4 * n * m), turned.data)
        addends = {
            "bias": operand(rng.standard_normal((1, m)).astype(np.float32)),
            "per column": operand(rng.standard_normal((n, 1)).astype(np.float32)),
            "residual": wide(full, 20),
            "turned": turned,
        }
        for name, e in addends.items():
            cases.append(Case([w, x, e], result("f32", (m, n)), name=f"{name} n={n}"))
        same = Operand(full.type, full.ne, full.nb, full.data)
        cases.append(Case([w, x, full], same, alias=2, name=f"in place n={n}"))
    return cases


def paired(rng: Rng, row: KernelRow) -> list[Case]:
    """Columns that are added up by two."""
    k, m, cases = lengths(row.wtype)[2], rows_of(row.wtype, 45), []
    for n in (2, 4, 6, 16):
        w = weights(rng, row.wtype, (k, m))
        x = activations(rng, row.xtype, n, k)
        dst = wide(result("f32", (m, n // 2)), 12)
        cases.append(Case([w, x], dst, ip=(1,), name=f"pairs n={n}"))
    return cases


def many(rng: Rng, row: KernelRow) -> list[Case]:
    """Of float weights so many columns that rows are widened for them first; k beyond what is
    widened at once."""
    cases = []
    for k, m, n in ((15, 45, 32), (528, 131, 38), (2585, 45, 46)) if row.wtype in FLOATS else ():
        w, x = weights(rng, row.wtype, (k, m)), activations(rng, row.xtype, n, k)
        gaps = Case([wide(w, 4), wide(x, 36)], wide(result("f32", (m, n)), 12), name=f"many k={k}")
        pairs = Case([w, x], result("f32", (m, n // 2)), ip=(1,), name=f"many pairs k={k}")
        bias = operand(rng.standard_normal((1, m)).astype(np.float32))
        cases += [gaps, pairs, Case([w, x, bias], result("f32", (m, n)), name=f"many bias k={k}")]
    return cases


def extremes(row: KernelRow) -> list[Case]:
    """Largest magnitudes, where a saturating multiply-add would show."""
    if row.wtype in FLOATS:
        return []
    k, m, cases = lengths(row.wtype)[-1], rows_of(row.wtype, 13), []
    w = packed(extreme_weights(row.wtype, m, k), row.wtype, (k, m))
    for n in (3, 6):
        x = packed(extreme_x8(n, k).packed, "x8", (k, n))
        cases.append(Case([w, x], result("f32", (m, n)), name=f"extreme n={n}"))
    zero = X8(np.zeros((2, k), np.int8), np.zeros((2, k // 32), np.float32))
    cases.append(Case([w, packed(zero.packed, "x8", (k, 2))], result("f32", (m, 2)), name="zero"))
    return cases


def get_rows(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for k in lengths(row.wtype):
        table = weights(rng, row.wtype, (k, 19))
        for ids in (np.array([18]), rng.integers(0, 19, 37)):
            i = operand(ids.astype(np.int32))
            cases.append(Case([table, i], result("f32", (k, len(ids))), name=f"k={k}"))
    k = lengths(row.wtype)[0]
    table = weights(rng, row.wtype, (k, 5, 2))
    i = operand(rng.integers(0, 5, (2, 3)).astype(np.int32))
    cases.append(Case([table, i], result("f32", (k, 3, 2)), name="two matrices"))
    table = weights(rng, row.wtype, (k, 5))
    cases.append(Case([wide(table, 6), i], result("f32", (k, 3, 2)), name="one for two, gaps"))
    return cases


def repack(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for k in lengths(row.xtype):
        for ne in ((k, 8), (k, 16, 3), (k, 1304, 2)):
            w = weights(rng, row.xtype, ne)
            cases.append(Case([w], result(row.wtype, ne), name=f"ne={ne}"))
    return cases


CASES = {"mul_mat": mul_mat, "get_rows": get_rows, "repack": repack}
