"""Each filter against its definition, written down plainly in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from llamapy.sample import filters
from llamapy.sample.candidates import Candidates
from llamapy.sample.logprobs import logprobs

RNG = np.random.default_rng(11)
Row = tuple[int, float]


def logits(n: int, scale: float = 3.0, ties: bool = False) -> NDArray[np.float32]:
    x = RNG.standard_normal(n) * scale
    return (np.round(x) if ties else x).astype(np.float32)


def rows(c: Candidates) -> list[Row]:
    return [(c.id(i), float(v)) for i, v in enumerate(c.logits)]


def ranked(x: NDArray[np.float32]) -> list[Row]:
    return sorted(((i, float(v)) for i, v in enumerate(x)), key=lambda r: (-r[1], r[0]))


def softmax(values: list[Row]) -> list[float]:
    top = max(v for _, v in values)
    e = [math.exp(v - top) for _, v in values]
    total = math.fsum(e)
    return [x / total for x in e]


def scrambled(x: NDArray[np.float32]) -> Candidates:
    """The same candidates with their ids given, in another order."""
    order = np.random.default_rng(5).permutation(len(x))
    return Candidates(x[order], order)


@pytest.mark.parametrize("n", [1, 5, 40, 511, 512, 3000, 49152, 50001])
@pytest.mark.parametrize("k", [1, 40, 1000])
@pytest.mark.parametrize("ties", [False, True])
def test_top_k(n: int, k: int, ties: bool) -> None:
    x = logits(n, ties=ties)
    got = filters.top_k(Candidates(x), k)
    assert rows(got) == ranked(x)[:k]
    assert got.sorted
    assert rows(filters.top_k(scrambled(x), k)) == ranked(x)[:k]


def test_top_k_off_and_min_keep() -> None:
    x = logits(100)
    assert rows(filters.top_k(Candidates(x), 0)) == rows(Candidates(x))
    assert rows(filters.top_k(Candidates(x), -1, 5)) == rows(Candidates(x))
    assert rows(filters.top_k(Candidates(x), 2, 5)) == ranked(x)[:5]


def test_top_k_with_forbidden_tokens_and_both_zeros() -> None:
    x = np.full(40000, -np.inf, np.float32)
    x[[7, 30000, 39999]] = [0.0, -0.0, 1.0]
    assert [i for i, _ in rows(filters.top_k(Candidates(x), 3))] == [39999, 7, 30000]
    assert [i for i, _ in rows(Candidates(x).by_logit())][:4] == [39999, 7, 30000, 0]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-50, 50, width=32), min_size=1, max_size=60),
    st.floats(0, 1.1),
    st.integers(0, 5),
)
def test_top_p(values: list[float], p: float, min_keep: int) -> None:
    x = np.array(values, np.float32)
    order, total = ranked(x), 0.0
    probs = softmax(order)
    wanted = len(order)
    if p < 1:
        for wanted, q in enumerate(probs, 1):
            total += q
            if total >= p and wanted >= min_keep:
                break
        if any(abs(s - p) < 1e-12 for s in np.cumsum(probs)):
            return
        assert rows(filters.top_p(Candidates(x), p, min_keep)) == order[:wanted]
    else:
        assert len(filters.top_p(Candidates(x), p)) == len(x)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_top_p_of_a_whole_vocabulary(scale: float) -> None:
    x = logits(40000, scale)
    order = ranked(x)
    reached = np.cumsum(softmax(order))
    for p in (0.1, 0.5, 0.95, 0.999):
        wanted = int(np.argmax(reached >= p)) + 1
        assert rows(filters.top_p(Candidates(x), p)) == order[:wanted]


def test_min_p() -> None:
    x = logits(5000)
    for p in (0.01, 0.05, 0.5, 1.0):
        bound = np.float32(x.max() + np.float32(math.log(p)))
        wanted = [(i, float(v)) for i, v in enumerate(x) if v >= bound]
        assert rows(filters.min_p(Candidates(x), p)) == wanted
    assert len(filters.min_p(Candidates(x), 0)) == 5000
    assert rows(filters.min_p(Candidates(x), 1.0, 7)) == ranked(x)[:7]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_typical(values: list[float], p: float) -> None:
    x = np.array(values, np.float32)
    all_rows = rows(Candidates(x))
    probs = softmax(all_rows)
    entropy = math.fsum(-q * math.log(q) for q in probs if q > 0)
    distance = [abs(-math.log(q) - entropy) if q > 0 else math.inf for q in probs]
    kept = {i for i, _ in rows(filters.typical(Candidates(x), p))}
    mass = math.fsum(probs[i] for i in kept)
    assert kept
    assert mass > p - 1e-9
    worst = max(distance[i] for i in kept)
    assert all(distance[i] >= worst - 1e-9 for i in range(len(x)) if i not in kept)
    without = mass - max(probs[i] for i in kept if distance[i] >= worst - 1e-12)
    assert without <= p + 1e-9


def test_typical_takes_the_expected_ones() -> None:
    x = np.log(np.array([0.5, 0.25, 0.125, 0.125])).astype(np.float32)
    # The entropy is 1.75 bits: 0.25 (2 bits) is nearest, then 0.5 (1 bit).
    assert [i for i, _ in rows(filters.typical(Candidates(x), 0.2))] == [1]
    assert [i for i, _ in rows(filters.typical(Candidates(x), 0.6))] == [1, 0]
    assert [i for i, _ in rows(filters.typical(Candidates(x), 0.2, 2))] == [1, 0]


def test_top_n_sigma() -> None:
    x = logits(3000)
    x[5] = -np.inf
    real = [float(v) for v in x if np.isfinite(v)]
    mean = math.fsum(real) / len(real)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in real) / len(real))
    for n in (0.5, 1.0, 2.0):
        wanted = [(i, float(v)) for i, v in enumerate(x) if v >= max(real) - n * std]
        assert rows(filters.top_n_sigma(Candidates(x), n)) == wanted
    assert len(filters.top_n_sigma(Candidates(x), -1)) == 3000


def test_xtc() -> None:
    x = np.log(np.array([0.05, 0.4, 0.15, 0.3, 0.1])).astype(np.float32)
    kept = lambda **k: [i for i, _ in rows(filters.xtc(Candidates(x), **k))]  # noqa: E731
    assert kept(probability=0.5, threshold=0.12, chance=0.5) == [0, 2, 4]
    assert kept(probability=0.5, threshold=0.12, chance=0.51) == [0, 1, 2, 3, 4]
    assert kept(probability=0.5, threshold=0.35, chance=0.0) == [0, 1, 2, 3, 4]
    assert kept(probability=1, threshold=0.6, chance=0.0) == [0, 1, 2, 3, 4]
    assert kept(probability=0, threshold=0.1, chance=0.0) == [0, 1, 2, 3, 4]
    assert kept(probability=1, threshold=0.12, chance=0.0, min_keep=4) == [0, 1, 2, 3, 4]
    equal = Candidates(np.zeros(3, np.float32))
    assert [i for i, _ in rows(filters.xtc(equal, 1, 0.1, 0.0))] == [2]


def test_temperature() -> None:
    x = logits(50)
    got = filters.temperature(Candidates(x), 0.8)
    assert np.array_equal(got.logits, (x - x.max()) / np.float32(0.8))
    assert rows(filters.temperature(Candidates(x), 0)) == ranked(x)[:1]
    assert rows(filters.temperature(Candidates(np.zeros(4, np.float32)), -1)) == [(0, 0.0)]
    cold = filters.temperature(Candidates(x), 1e-300)
    assert [v > -1e25 for _, v in ranked(cold.logits)] == [True] + [False] * 49


def test_dynamic_temperature() -> None:
    flat = Candidates(np.array([0, 1e-3], np.float32))
    assert filters.temperature(flat, 1.0, 0.5).logits[0] == pytest.approx(-1e-3 / 1.5, rel=1e-4)
    sharp = Candidates(np.array([100, 0, 0], np.float32))
    assert filters.temperature(sharp, 1.0, 0.5).logits[1] == pytest.approx(-200, rel=1e-6)
    p = np.array([0.5, 0.5, 1e-12, 1e-12])
    half = Candidates(np.log(p).astype(np.float32))
    got = filters.temperature(half, 1.0, 0.5, 2.0).logits[2]
    assert got == pytest.approx(math.log(2e-12) / (0.5 + 1.0 * 0.5**2), rel=1e-5)


def test_draw_follows_the_cumulative_sum() -> None:
    c = Candidates(np.log(np.array([0.5, 0.25, 0.25])).astype(np.float32))
    assert [filters.draw(c, u) for u in (0.0, 0.49, 0.51, 0.74, 0.76, 1 - 2**-53)] == [
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    masked = Candidates(np.array([-np.inf, 0, -np.inf], np.float32))
    assert [filters.draw(masked, u) for u in (0.0, 0.5, 1 - 2**-53)] == [1, 1, 1]


def test_no_filter_changes_its_argument() -> None:
    x = logits(1000)
    before = x.copy()
    x.flags.writeable = False
    c = Candidates(x)
    for step in (
        filters.top_k(c, 5),
        filters.top_p(c, 0.5),
        filters.min_p(c, 0.1),
        filters.typical(c, 0.5),
        filters.top_n_sigma(c, 1),
        filters.xtc(c, 1, 0.01, 0),
        filters.temperature(c, 0.5),
    ):
        assert len(step) >= 1
    assert np.array_equal(x, before)


def test_find() -> None:
    c = Candidates(np.zeros(4, np.float32), np.array([9, 2, 7, 4]))
    places, which = c.find(np.array([4, 5, 9, 100, 0]))
    assert (places.tolist(), which.tolist()) == ([3, 0], [0, 2])
    places, which = Candidates(np.zeros(4, np.float32)).find(np.array([3, 4, -1, 0]))
    assert (places.tolist(), which.tolist()) == ([3, 0], [0, 3])


def test_logprobs() -> None:
    x = logits(5000)
    ids, got = logprobs(x, 5)
    wide = x.astype(np.float64)
    wanted = wide - wide.max() - math.log(math.fsum(np.exp(wide - wide.max())))
    assert ids.tolist() == [i for i, _ in ranked(x)[:5]]
    assert np.allclose(got, wanted[ids], rtol=0, atol=1e-12)
    assert np.allclose(logprobs(x * 0, 3)[1], -math.log(5000), rtol=0, atol=1e-12)
