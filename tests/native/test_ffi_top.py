"""The highest of many numbers, against a plain sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.base.errors import NumericError
from llamapy.ffi.top import top_k


def plain(x: np.ndarray, k: int) -> list[int]:
    return sorted(range(len(x)), key=lambda i: (-x[i], i))[:k]


@given(
    values=st.lists(st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1.0, 1.5, np.inf]), min_size=1,
                    max_size=300),
    k=st.integers(1, 300),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_equal_ones_go_by_index(values: list[float], k: int) -> None:
    x, k = np.array(values, np.float32), min(k, len(values))
    ids, top = top_k(x, k)
    assert ids.tolist() == plain(x, k)
    assert top.tolist() == x[ids].tolist()


@pytest.mark.parametrize("n", [1, 63, 64, 65, 128, 49152, 262144])
@pytest.mark.parametrize("k", [1, 2, 40, 1000])
@pytest.mark.parametrize("order", ["any", "rising", "falling"])
def test_many(n: int, k: int, order: str) -> None:
    x = np.random.default_rng(n + k).standard_normal(n).astype(np.float32)
    if order != "any":
        x = np.sort(x) if order == "rising" else np.sort(x)[::-1]
    k = min(k, n)
    ids, _ = top_k(x, k)
    assert ids.tolist() == np.argsort(-x, kind="stable")[:k].tolist()


@given(
    values=st.lists(st.sampled_from([-np.inf, -1.0, -1e-45, -0.0, 0.0, 1e-45, 2.0]), min_size=1),
    shares=st.integers(0, 2**32 - 1),
    n=st.integers(1024, 3000),
    k=st.sampled_from([1, 40, 64, 65]),
)
@settings(max_examples=200, deadline=None)
def test_equal_ones_among_many(values: list[float], shares: int, n: int, k: int) -> None:
    """The bound that lanes give is one of the few values, with any number of them above it."""
    rng = np.random.default_rng(shares)
    x = np.array(values, np.float32)[np.minimum(rng.geometric(0.5, n), len(values)) - 1]
    x[rng.integers(0, n, 30)] = 2.0
    ids, top = top_k(x, k)
    assert ids.tolist() == np.argsort(-x, kind="stable")[:k].tolist()
    assert top.tolist() == x[ids].tolist()


def test_read_only_numbers_stay_as_they_are() -> None:
    x = np.arange(100, dtype=np.float32)
    x.flags.writeable = False
    assert top_k(x, 3)[0].tolist() == [99, 98, 97]


@pytest.mark.parametrize("at", [0, 5, 63, 64, 999, 4242, 4999])
@pytest.mark.parametrize("n", [1000, 5000])
def test_nan_is_named(at: int, n: int) -> None:
    x = np.zeros(n, np.float32)
    at %= n
    x[at] = x[-1] = np.nan
    with pytest.raises(NumericError, match=f"NaN at {at} of {n}"):
        top_k(x, 10)


@pytest.mark.parametrize("k", [-1, 0, 11])
def test_k_is_within_the_numbers(k: int) -> None:
    with pytest.raises(ValueError, match="of 10 numbers"):
        top_k(np.zeros(10, np.float32), k)
