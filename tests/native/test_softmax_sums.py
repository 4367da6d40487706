"""lp_softmax_sums against float64, on rows of all lengths and of extreme values."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from llamapy.ffi.softmax import Rows, Workers, negative_log


@pytest.mark.parametrize("n_vocab", [1, 7, 16, 17, 255, 256, 257, 5000])
@pytest.mark.parametrize("scale", [0.1, 5.0, 60.0])
def test_against_float64(n_vocab: int, scale: float) -> None:
    rng = np.random.default_rng(n_vocab)
    x = rng.normal(-3, scale, (5, n_vocab)).astype(np.float32)
    targets = rng.integers(0, n_vocab, 5, dtype=np.int32)
    got = negative_log(x, targets)
    wide = x.astype(np.float64)
    top = wide.max(axis=1)
    want = np.log(np.exp(wide - top[:, None]).sum(axis=1)) + top - wide[np.arange(5), targets]
    np.testing.assert_allclose(got, want, rtol=2e-7, atol=3e-7)


def test_threads_do_not_matter() -> None:
    x = np.random.default_rng(1).normal(0, 4, (11, 1000)).astype(np.float32)
    alone = Rows.of(x)
    with ThreadPoolExecutor(3) as pool:
        many = Rows.of(x, Workers(pool, 3))
    assert (many.log_sum, many.top.tolist()) == (alone.log_sum, alone.top.tolist())


def test_tops_are_the_first_of_the_largest() -> None:
    x = np.array([[1, 3, 3, 2], [5, 1, 1, 5], [0, 0, 0, 1]], np.float32)
    assert Rows.of(x).tops().tolist() == [1, 0, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("at", [0, 5, 16, 300, 399])
def test_no_numbers_are_seen(bad: float, at: int) -> None:
    x = np.zeros((3, 400), np.float32)
    x[1, at] = bad
    got = negative_log(x, np.zeros(3, np.int32))
    assert math.isnan(got[1]) and got[0] == got[2] == pytest.approx(math.log(400), rel=1e-7)


def test_minus_infinity_is_no_probability() -> None:
    x = np.array([[0.0, -math.inf, 0.0]], np.float32)
    assert negative_log(x, np.array([0], np.int32)) == [pytest.approx(math.log(2), rel=1e-7)]
