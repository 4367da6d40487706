"""Kept log-probabilities and divergences from them, against float64 that knows nothing of codes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from llamapy.ffi.kept import HEAD, beside, cut, keep, most_bytes
from llamapy.ffi.softmax import Rows, Workers


def log_softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """KL of q from p over what p gives more than e^-16, and all else as one."""
    kept = p > -16
    inside = np.where(kept, np.exp(p) * (p - q), 0).sum(axis=1)
    left_p, left_q = (np.where(kept, 0, np.exp(lp)).sum(axis=1) for lp in (p, q))
    return inside + [a * np.log(a / b) if a else 0 for a, b in zip(left_p, left_q, strict=True)]


@pytest.mark.parametrize("n_vocab", [1, 2, 63, 64, 65, 300, 1000, 49152])
@pytest.mark.parametrize("scale", [0.5, 3.0, 9.0])
@pytest.mark.parametrize("apart", [0.0, 0.02, 1.0])
def test_divergence(n_vocab: int, scale: float, apart: float) -> None:
    rng = np.random.default_rng(n_vocab)
    x = rng.normal(-2, scale, (3, n_vocab)).astype(np.float32)
    y = (x + rng.normal(0, apart, x.shape)).astype(np.float32)
    nll = [0.5, 1.25, 7.0]
    records = keep(Rows.of(x), nll)
    assert all(len(r) <= most_bytes(n_vocab) and len(r) % 8 == 0 for r in records)
    got = beside(Rows.of(y), records)
    assert got is not None
    p, q = log_softmax(x), log_softmax(y)
    want = divergence(p, q)
    assert [g.nll for g in got] == nll
    np.testing.assert_allclose([g.kl for g in got], want, rtol=3e-4, atol=3e-6)
    assert [g.same_top for g in got] == (p.argmax(axis=1) == q.argmax(axis=1)).tolist()
    if apart == 0:
        assert max(g.kl for g in got) < 1e-6


def test_records_are_small_and_say_what_is_left() -> None:
    x = np.random.default_rng(3).normal(0, 4, (1, 20000)).astype(np.float32)
    p = log_softmax(x)
    (record,) = keep(Rows.of(x), [2.5])
    head = record[: HEAD.itemsize].view(HEAD)[0]
    assert head["n"] == (p > -16).sum() and head["top"] == x.argmax() and head["nll"] == 2.5
    assert head["rest"] == pytest.approx(np.exp(p[p <= -16]).sum(), rel=1e-5)
    assert len(record) < 24 + 20000 / 8 + 2 * head["n"] + 16


def test_threads_do_not_matter() -> None:
    x = np.random.default_rng(1).normal(0, 4, (11, 1000)).astype(np.float32)
    rows, nll = Rows.of(x), [1.0] * 11
    alone = keep(rows, nll)
    with ThreadPoolExecutor(3) as pool:
        many = keep(rows, nll, Workers(pool, 3))
        assert [r.tobytes() for r in many] == [r.tobytes() for r in alone]
        other = Rows.of(x[::-1])
        assert beside(other, alone, Workers(pool, 3)) == beside(other, alone)


def test_masked_tokens() -> None:
    x = np.array([[0.0, 1.0, -np.inf, 2.0]], np.float32)
    y = np.array([[0.0, -np.inf, 1.0, 2.0]], np.float32)
    (record,) = keep(Rows.of(x), [1.0])
    assert record[: HEAD.itemsize].view(HEAD)["n"][0] == 3
    got = beside(Rows.of(y), [record])
    assert got is not None and 10 < got[0].kl < 87  # what has no probability counts as e^-87


def test_cut() -> None:
    x = np.random.default_rng(1).normal(0, 4, (4, 777)).astype(np.float32)
    records = keep(Rows.of(x), [1.0] * 4)
    whole = np.concatenate(records)
    parts = cut(whole, 4, 777)
    assert parts is not None and [p.tobytes() for p in parts] == [r.tobytes() for r in records]
    for bad in (whole[:-8], np.append(whole, np.zeros(8, np.uint8)), whole[:20], whole[:0]):
        assert cut(bad, 4, 777) is None
    assert cut(whole, 5, 777) is None and cut(whole, 3, 777) is None


def test_damaged_records_are_refused() -> None:
    """Every word of a record replaced by hostile ones: refused, or read without going astray."""
    x = np.random.default_rng(1).normal(0, 4, (1, 130)).astype(np.float32)
    rows = Rows.of(x)
    (good,) = keep(rows, [1.0])
    for at in range(0, HEAD.itemsize + 24, 4):
        for word in (-1, 1 << 30, 0, 0x7FF80000, -(1 << 31)):
            bad = good.copy()
            bad[at : at + 4].view(np.int32)[0] = word
            same = bool((bad == good).all())
            (kept,) = bad[20:24].view(np.int32).tolist()
            if kept != good[20:24].view(np.int32)[0] or at >= 24 and not same:
                assert beside(rows, [bad]) is None
            else:
                beside(rows, [bad])
    for n in (0, 8, 24, 40, len(good) - 8):
        assert beside(rows, [good[:n]]) is None
    bits = good.copy()
    bits[HEAD.itemsize + 23] |= 0x80  # a token behind the vocabulary, in place of another
    first = int(np.flatnonzero(bits[HEAD.itemsize :])[0]) + HEAD.itemsize
    bits[first] &= bits[first] - 1
    assert beside(rows, [bits]) is None
