"""What mul_mat and get_rows mean, against numpy in float64, and the laws that hold between their
paths: few columns and many, with and without an addend, one matrix and several."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from cases_matmul import activations
from harness import Case, Operand, operand, packed, result, row_of, run, values
from quant_data import (
    FLOATS,
    X8,
    dequantised,
    extreme_weights,
    extreme_x8,
    random_weights,
    random_x8,
    real_weights,
)

from llamapy.base.errors import KernelError
from llamapy.base.types import BY_NAME
from llamapy.devices.ref.interleaved import interleave, is_interleaved, plain
from llamapy.ffi.lib import KernelRow, load

MUL_MAT = [k for k in load().kernels if k.family == "mul_mat" and not k.need & ~load().features]
GET_ROWS = [k for k in load().kernels if k.family == "get_rows"]
INTEGER = [k for k in MUL_MAT if k.xtype == "x8"]
INTERLEAVED = [k for k in INTEGER if is_interleaved(k.wtype)]
REPACK = [k for k in load().kernels if k.family == "repack"]


def rng_of(row: KernelRow) -> np.random.Generator:
    """Of interleaved rows: that of the rows they were made of."""
    return np.random.default_rng(zlib.crc32(f"{row.family}-{plain(row.wtype)}".encode()))


def product(row: KernelRow, raw: np.ndarray, x: Operand, m: int, *more: Operand) -> np.ndarray:
    """float32 [n, m]; raw is plain, whatever the row reads."""
    k, n = x.ne[0], x.ne[1]
    if is_interleaved(row.wtype):
        return interleaved_product(row, raw, x, m, *more)
    case = Case([packed(raw, row.wtype, (k, m)), x, *more], result("f32", (m, n)))
    return values(run(row.index, case), np.float32, (m, n))


def interleaved_product(
    row: KernelRow, raw: np.ndarray, x: Operand, m: int, *more: Operand
) -> np.ndarray:
    """With rows of zeros up to the next eight."""
    k, n, pad = x.ne[0], x.ne[1], -m % 8
    raw = interleave(np.pad(raw, ((0, pad), (0, 0))), plain(row.wtype))
    addends = []
    for e in more:
        if e.ne[0] == m:
            v = e.data.view(np.float32).reshape(-1, m)
            addends.append(operand(np.pad(v, ((0, 0), (0, pad)))))
        else:
            addends.append(e)
    srcs = [packed(raw, row.wtype, (k, m + pad)), x, *addends]
    out = values(run(row.index, Case(srcs, result("f32", (m + pad, n)))), np.float32, (m + pad, n))
    return np.ascontiguousarray(out[:, :m])


def assert_near(got: np.ndarray, w: np.ndarray, x: np.ndarray, k: int) -> None:
    """Every rounding is half a unit of at most the sum of magnitudes; k / 32 of them follow."""
    want, size = x @ w.T, np.abs(x) @ np.abs(w).T
    bound = size * (k / 32 + 8) * 2.0**-24 + 1e-30
    assert (np.abs(got - want) <= bound).all(), np.max(np.abs(got - want) / bound)


@pytest.mark.parametrize("row", INTEGER, ids=str)
@pytest.mark.parametrize("n", [1, 4, 9])
def test_quantised_product_is_the_real_one(row: KernelRow, n: int) -> None:
    rng, k, m = rng_of(row), 1024, 37
    raw, x = random_weights(rng, plain(row.wtype), m, k), random_x8(rng, n, k)
    w = real_weights(raw, plain(row.wtype), k)
    # A minimum cancels against the rest of the weight: bound by the parts, not by their sum.
    got = product(row, raw, packed(x.packed, "x8", (k, n)), m)
    largest = np.abs(w).reshape(m, -1, 32).max(2).repeat(32, axis=1)
    want, size = x.real @ w.T, np.abs(x.real) @ (4 * largest).T
    bound = size * (k / 32 + 8) * 2.0**-24
    assert (np.abs(got - want) <= bound).all(), np.max(np.abs(got - want) / bound)


@pytest.mark.parametrize("row", [k for k in MUL_MAT if k.xtype == "f32"], ids=str)
@pytest.mark.parametrize("n", [1, 3, 9])
def test_float_product_is_the_real_one(row: KernelRow, n: int) -> None:
    rng, k, m = rng_of(row), 333, 37
    raw = random_weights(rng, row.wtype, m, k)
    x = rng.standard_normal((n, k)).astype(np.float32)
    w = real_weights(raw, row.wtype, k)
    assert_near(product(row, raw, operand(x), m), w, x.astype(np.float64), k)


@pytest.mark.parametrize("row", INTEGER, ids=str)
def test_integer_sums_are_exact_at_the_extremes(row: KernelRow) -> None:
    """One group under a scale of one: the result is the integer itself."""
    k, m, n = BY_NAME[row.wtype].block, 8, 6
    raw, x = extreme_weights(plain(row.wtype), m, k), extreme_x8(n, k)
    x.d[:] = 1
    w = real_weights(raw, plain(row.wtype), k)
    got = product(row, raw, packed(x.packed, "x8", (k, n)), m)
    want, size = x.real @ w.T, np.abs(x.real) @ np.abs(w).T
    assert np.isfinite(got).all()
    assert (np.abs(got - want) <= size * 2.0**-22).all()


@pytest.mark.parametrize(
    "row", [r for r in INTEGER if plain(r.wtype) in ("q8_0", "q4_1", "q4_K", "q6_K")], ids=str
)
def test_columns_of_many_tasks_equal_those_alone(row: KernelRow) -> None:
    """Tasks keep what they make of columns for the next: those of other columns must not use it."""
    rng, k, m, n = rng_of(row), 256, 64, 1040  # three parts of columns by several of rows
    raw, x = random_weights(rng, plain(row.wtype), m, k), random_x8(rng, n, k)
    whole = product(row, raw, packed(x.packed, "x8", (k, n)), m)
    for first in (0, 345, 352, 697, n - 3):
        few = packed(x.packed[first : first + 3], "x8", (k, 3))
        assert (product(row, raw, few, m) == whole[first : first + 3]).all(), first


@pytest.mark.parametrize("row", MUL_MAT, ids=str)
def test_columns_do_not_see_each_other(row: KernelRow) -> None:
    """Nine columns at once, two, or one: the same bits."""
    rng, k, m, n = rng_of(row), 768, 45, 9
    raw = random_weights(rng, plain(row.wtype), m, k)
    if row.xtype == "x8":
        data = random_x8(rng, n, k).packed
        parts = [packed(data[i:j], "x8", (k, j - i)) for i, j in ((0, 9), (0, 2), (2, 5), (8, 9))]
    else:
        x = rng.standard_normal((n, k)).astype(np.float32)
        parts = [operand(x[i:j].copy()) for i, j in ((0, 9), (0, 2), (2, 5), (8, 9))]
    whole, two, three, last = (product(row, raw, p, m).tobytes() for p in parts)
    assert two == whole[: len(two)]
    assert three == whole[len(two) : len(two) + len(three)]
    assert last == whole[-len(last) :]


@pytest.mark.parametrize("row", MUL_MAT, ids=str)
@pytest.mark.parametrize("n", [2, 6, 16])
def test_columns_of_a_pair_are_added_up_after_rounding(row: KernelRow, n: int) -> None:
    rng, k, m = rng_of(row), 256, 24
    raw = random_weights(rng, plain(row.wtype), m, k)
    x = activations(rng, row.xtype, n, k)
    apart = product(row, raw, x, m)
    w = interleave(raw, plain(row.wtype)) if is_interleaved(row.wtype) else raw
    case = Case([packed(w, row.wtype, (k, m)), x], result("f32", (m, n // 2)), ip=(1,))
    got = values(run(row.index, case), np.float32, (m, n // 2))
    assert (got == apart[::2] + apart[1::2]).all()


@pytest.mark.parametrize("row", MUL_MAT, ids=str)
@pytest.mark.parametrize("n", [2, 7])
def test_an_addend_is_added_after_rounding(row: KernelRow, n: int) -> None:
    rng, k, m = rng_of(row), 256, 35
    raw = random_weights(rng, plain(row.wtype), m, k)
    x = activations(rng, row.xtype, n, k)
    alone = product(row, raw, x, m)
    bias = rng.standard_normal((1, m)).astype(np.float32)
    full = rng.standard_normal((n, m)).astype(np.float32)
    assert (product(row, raw, x, m, operand(bias)) == alone + bias).all()
    assert (product(row, raw, x, m, operand(full)) == alone + full).all()


@pytest.mark.parametrize("row", REPACK, ids=str)
def test_repacking_interleaves_eight_rows(row: KernelRow) -> None:
    k, m = 3 * BY_NAME[row.xtype].block, 24
    raw = random_weights(rng_of(row), row.xtype, m, k)
    case = Case([packed(raw, row.xtype, (k, m), 2)], result(row.wtype, (k, m)))
    assert run(row.index, case) == interleave(raw, row.xtype).tobytes()


@pytest.mark.parametrize("row", INTERLEAVED, ids=str)
@pytest.mark.parametrize("n", [1, 3, 9])
def test_interleaved_rows_give_the_bits_of_plain_ones(row: KernelRow, n: int) -> None:
    rng, k, m = rng_of(row), 768, 40
    raw = random_weights(rng, plain(row.wtype), m, k)
    x = packed(random_x8(rng, n, k).packed, "x8", (k, n))
    want = product(row_of("mul_mat", plain(row.wtype), "x8"), raw, x, m)
    assert product(row, raw, x, m).tobytes() == want.tobytes()


@pytest.mark.parametrize("row", INTERLEAVED, ids=str)
def test_seven_interleaved_rows_are_refused(row: KernelRow) -> None:
    k = BY_NAME[row.wtype].block
    w = packed(random_weights(rng_of(row), plain(row.wtype), 7, k), row.wtype, (k, 7))
    x = packed(random_x8(rng_of(row), 1, k).packed, "x8", (k, 1))
    with pytest.raises(KernelError):
        run(row.index, Case([w, x], result("f32", (7, 1))))


def test_outer_axes_repeat_the_weights() -> None:
    row, rng, k, m, n = row_of("mul_mat", "q8_0", "x8"), np.random.default_rng(1), 64, 5, 3
    raw, x = random_weights(rng, "q8_0", 2 * m, k), random_x8(rng, 8 * n, k)
    strides = (40, 80, 80 * n, 80 * n * 4)
    srcs = [
        packed(raw, "q8_0", (k, m, 2)),
        Operand(BY_NAME["x8"], (k, n, 4, 2), strides, x.packed.reshape(-1)),
    ]
    got = values(run(row.index, Case(srcs, result("f32", (m, n, 4, 2)))), np.float32, (m, n, 4, 2))
    w = real_weights(raw, "q8_0", k).reshape(2, m, k)
    want = np.einsum("imk,jirnk->jirnm", w, x.real.reshape(2, 2, 2, n, k))
    assert np.allclose(got, want.reshape(2, 4, n, m), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("row", GET_ROWS, ids=str)
def test_rows_are_dequantised_exactly(row: KernelRow) -> None:
    rng, k = rng_of(row), 512
    ids = np.array([3, 0, 17, 3], np.int32)
    for raw in (random_weights(rng, row.wtype, 18, k), extreme_or_random(rng, row.wtype, 18, k)):
        case = Case([packed(raw, row.wtype, (k, 18)), operand(ids)], result("f32", (k, len(ids))))
        got = values(run(row.index, case), np.float32, (k, len(ids)))
        assert got.tobytes() == dequantised(raw, row.wtype).reshape(18, k)[ids].tobytes()


@pytest.mark.parametrize(("wtype", "n_scale"), [("mxfp4", 1), ("nvfp4", 4)])
def test_scales_of_one_byte_are_read_exactly(wtype: str, n_scale: int) -> None:
    """All 256 of them, in get_rows and in a product by a single one."""
    t, rng = BY_NAME[wtype], np.random.default_rng(4)
    raw = rng.integers(0, 256, (256, t.size_bytes), dtype=np.uint8)
    raw[:, :n_scale] = np.arange(256, dtype=np.uint8)[:, None]
    want = dequantised(raw, wtype)
    ids = operand(np.arange(256, dtype=np.int32))
    case = Case([packed(raw, wtype, (t.block, 256)), ids], result("f32", (t.block, 256)))
    got = values(run(row_of("get_rows", wtype).index, case), np.float32, (t.block, 256))
    assert got.tobytes() == want.tobytes()
    one = X8(np.zeros((5, t.block), np.int8), np.ones((5, t.block // 32), np.float32))
    one.q[:, 7] = 1
    for row in (k for k in INTEGER if plain(k.wtype) == wtype):
        for n in (1, 5):
            got = product(row, raw, packed(one.packed[:n], "x8", (t.block, n)), 256)
            assert (got == want[:, 7]).all()


def extreme_or_random(rng: np.random.Generator, wtype: str, rows: int, k: int) -> np.ndarray:
    if wtype in FLOATS:
        return random_weights(rng, wtype, rows, k)
    return extreme_weights(wtype, rows, k)


@pytest.mark.parametrize("bad", [-1, 4, 2**31 - 1])
def test_an_id_outside_the_table_is_refused(bad: int) -> None:
    row, rng = row_of("get_rows", "q8_0"), np.random.default_rng(2)
    table = packed(random_weights(rng, "q8_0", 4, 32), "q8_0", (32, 4))
    case = Case([table, operand(np.array([0, bad], np.int32))], result("f32", (32, 2)))
    with pytest.raises(KernelError, match="row index"):
        run(row.index, case)


def test_shapes_that_do_not_fit_are_refused() -> None:
    row, rng = row_of("mul_mat", "q8_0", "x8"), np.random.default_rng(3)
    w = packed(random_weights(rng, "q8_0", 4, 64), "q8_0", (64, 4))
    x = packed(X8(np.zeros((1, 32), np.int8), np.zeros((1, 1), np.float32)).packed, "x8", (32, 1))
    with pytest.raises(KernelError):
        run(row.index, Case([w, x], result("f32", (4, 1))))
