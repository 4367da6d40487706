"""Where the highest of a sum is, without all of the sum: what `highest` says of all of it."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from harness import Case, operand, packed, params, result, row_of, run, values
from hypothesis import given, settings
from hypothesis import strategies as st
from quant_data import X8, random_weights, random_x8, real_weights

from llamapy.base.types import BY_NAME
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.ref.interleaved import interleave, is_interleaved, plain
from llamapy.ffi.lib import KernelRow, load
from llamapy.graph.tensor import PARAM, Tensor
from llamapy.runtime.lengths import AT_ONCE, ROOM, TYPES, may_measure, measure

ROWS = [k for k in load().kernels if k.family == "highest_sum" and not k.need & ~load().features]
K, M, N = 256, 264, 3


def weights(wtype: str) -> np.ndarray:
    """Plain bytes, eight rows of them twice."""
    raw = random_weights(np.random.default_rng(zlib.crc32(wtype.encode())), wtype, M, K)
    raw[M // 2 : M // 2 + 8] = raw[:8]
    return raw


def stored(raw: np.ndarray, wtype: str):
    bytes_ = interleave(raw, plain(wtype)) if is_interleaved(wtype) else raw
    return packed(bytes_, wtype, (K, M))


def both(
    row: KernelRow, raw: np.ndarray, main: np.ndarray, x: X8, length: np.ndarray, *never: int
) -> tuple[list[int], list[int]]:
    """What the kernel says, and `highest` of the sum that mul_mat gives."""
    w, columns = stored(raw, row.wtype), packed(x.packed, "x8", (K, N))
    out = np.array(never, np.int32)
    ip, fp = params("highest_sum", longest=float(length.max()))
    more = [operand(out)] if never else []
    srcs = [operand(main), w, columns, operand(length.astype(np.float32)), *more]
    got = values(run(row.index, Case(srcs, result("i32", (N,)), ip, fp)), np.int32, (N,))
    mul_mat = row_of("mul_mat", row.wtype, "x8", row.isa)
    whole = run(mul_mat.index, Case([w, columns, operand(main)], result("f32", (M, N))))
    sums = values(whole, np.float32, (M, N))
    case = Case([operand(sums), *more], result("i32", (N,)))
    want = values(run(row_of("highest", "i32").index, case), np.int32, (N,))
    return got.tolist(), want.tolist()


def lengths(raw: np.ndarray, wtype: str) -> np.ndarray:
    rows = real_weights(raw, plain(wtype), K).astype(np.float64)
    return np.linalg.norm(rows.reshape(M, K), axis=1) * ROOM


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_it_is_that_of_the_whole_sum(row: KernelRow) -> None:
    """From a main term that decides alone to one that says nothing; ties, also of equal rows."""
    rng = np.random.default_rng(5)
    raw = weights(plain(row.wtype))
    length, x = lengths(raw, row.wtype), random_x8(rng, N, K)
    for scale in (0.0, 1.0, 30.0, 1e6):
        main = np.rint(rng.standard_normal((N, M)) * 4).astype(np.float32) * np.float32(scale)
        main[:, M // 2 : M // 2 + 8] = main[:, :8]
        for never in ((), (0, 5, M - 1), tuple(range(0, M, 3))):
            got, want = both(row, raw, main, x, length, *never)
            assert got == want and min(want) >= 0
            assert not set(got) & set(never)
        got, want = both(row, raw, main, x, np.full(M, np.nan))
        assert got == want
    nothing = X8(np.zeros((N, K), np.int8), np.zeros((N, K // 32), np.float32))
    got, want = both(row, raw, main, nothing, length)
    assert got == want == main.argmax(1).tolist()


def test_broken_numbers_are_found_wherever_they_are() -> None:
    row, rng = row_of("highest_sum", "q8_0", "x8"), np.random.default_rng(6)
    raw = weights("q8_0")
    length = lengths(raw, "q8_0")
    for bad in (np.nan, np.inf, -np.inf):
        for place in (0, 17, M - 1):
            for never in ((), (place,)):
                main = rng.standard_normal((N, M)).astype(np.float32)
                main[1, place] = bad
                got, want = both(row, raw, main, random_x8(rng, N, K), length, *never)
                assert got == want
                assert (want[1] == -1) == (bad != -np.inf)
        x = random_x8(rng, N, K)
        x.d[2, 3] = bad
        got, want = both(row, raw, main, x, length)
        assert got == want and want[2] == -1
    main[:] = -np.inf
    got, want = both(row, raw, main, random_x8(rng, N, K), length)
    assert got == want == [-1] * N
    got, want = both(row, raw, np.zeros_like(main), x, length, *range(M))
    assert got == want == [-1] * N


@given(st.integers(0, 2**32 - 1), st.floats(-6, 6), st.sampled_from(sorted(TYPES)))
@settings(max_examples=60, deadline=None)
def test_any_scales(seed: int, scale: float, wtype: str) -> None:
    """Main terms that are larger and smaller than the product by all powers of ten."""
    rng = np.random.default_rng(seed)
    row = [k for k in ROWS if k.wtype == wtype][-1]
    raw = random_weights(rng, wtype, M, K)
    main = (rng.standard_normal((N, M)) * 10.0**scale).astype(np.float32)
    got, want = both(row, raw, main, random_x8(rng, N, K), lengths(raw, wtype))
    assert got == want


@pytest.mark.parametrize("name", sorted(TYPES))
def test_lengths_are_bounds(name: str) -> None:
    """Of more rows than are measured at once."""
    cpu = CpuDevice(2)
    kind, n_rows = BY_NAME[name], AT_ONCE + 70
    raw = random_weights(np.random.default_rng(4), name, n_rows, 256)
    w = Tensor(kind, (256, n_rows, 1, 1), name="w", flags=PARAM)
    w.buffer = cpu.alloc(cpu.default_buft, w.n_bytes, "weights")
    w.buffer.write(0, raw)
    assert may_measure(w)
    measure(w, cpu)
    found, longest = w.lengths
    got = np.frombuffer(found.buffer.read(0, found.n_bytes), np.float32)
    rows = real_weights(raw, name, 256).astype(np.float64)
    want = np.linalg.norm(rows.reshape(n_rows, 256), axis=1)
    assert (got >= want * 1.01).all() and (got <= want * 1.03 + 1e-15).all()
    assert longest == got.max()
    cpu.close()


def test_types_are_those_of_the_kernels() -> None:
    rows = {plain(k.wtype) for k in load().kernels if k.family == "highest_sum"}
    assert rows == TYPES
