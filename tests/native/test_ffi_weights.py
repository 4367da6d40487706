"""exp and log of sampling against high precision, the order of its sums, and its bits."""

from __future__ import annotations

import hashlib
from decimal import Decimal, localcontext

import numpy as np
import pytest

from llamapy.ffi.weights import exp, log, total_weight, weights

RNG = np.random.default_rng(2)
FALLS = np.concatenate(
    [
        -RNG.random(2000),
        -708 * RNG.random(2000),
        -(np.float32(2.0) ** np.arange(-60, 10)),
        [0, -708],
    ]
).astype(np.float32)


def off(got: float, wanted: Decimal) -> float:
    return float(abs(Decimal(got) / wanted - 1))


def test_exp_against_high_precision() -> None:
    got, _ = weights(FALLS)
    with localcontext() as c:
        c.prec = 40
        wanted = [Decimal(float(x)).exp() for x in FALLS]
        worst = max(off(float(a), b) for a, b in zip(got, wanted, strict=True))
        assert worst < 5e-16
        assert all(off(exp(x), Decimal(x).exp()) < 5e-16 for x in (709.0, 300.5, 1.0, -1e-300))


def test_exp_at_its_ends() -> None:
    x = np.array([3, -np.inf, 3, -1e30, 3 - 708, np.nextafter(np.float32(-705), -np.inf)], "f4")
    got, total = weights(x)
    assert got[:4].tolist() == [1, 0, 1, 0]
    assert got[4] > 0
    assert got[5] == 0
    assert total == 2 + got[4]
    assert (exp(0.0), exp(-709.0), exp(-np.inf)) == (1.0, 0.0, 0.0)
    assert exp(1e9) == exp(np.inf) == exp(709.0)
    nothing = weights(np.full(20, -np.inf, np.float32))
    assert (nothing[0].any(), nothing[1]) == (False, 0)


@pytest.mark.parametrize("n", [*range(1, 20), 255, 256, 257, 1000])
def test_one_or_many_have_the_same_bits_and_sums_are_in_order(n: int) -> None:
    x = (RNG.standard_normal(n + 1) * 20).astype(np.float32)[1:]  # at any place in memory
    got, total = weights(x)
    top = np.float64(x.max())
    assert got.tolist() == [exp(float(v)) for v in x - top]
    lanes = [0.0] * 8
    for i, e in enumerate(got.tolist()):
        lanes[i % 8] += e
    a, b, c, d = (lanes[j] + lanes[j + 4] for j in range(4))
    assert total == (a + c) + (b + d)
    assert total_weight(x) == total


def test_log_against_high_precision() -> None:
    values = [*(2.0 ** RNG.uniform(-1060, 1020, 500)), 5e-324, 1.0 + 2**-40, 0.5, 1e308]
    with localcontext() as c:
        c.prec = 40
        assert all(off(log(x), Decimal(x).ln()) < 1e-14 for x in values)
    assert log(1.0) == 0


def test_these_bits_never_change() -> None:
    x = -(np.arange(20000, dtype=np.float32) ** 2) * np.float32(2.0**-20)
    got, total = weights(x)
    assert hashlib.sha256(got.astype("<f8").tobytes()).hexdigest()[:16] == "372d8e038a0aad0f"
    assert total.hex() == "0x1.c5ff891b4efa1p+9"
    assert log(total).hex() == "0x1.b3eb5cc825463p+2"
