"""What the kernels of whole rows mean, against numpy in float64; rms_norm is in
test_row_kernels.py."""

from __future__ import annotations

import numpy as np
import pytest
from cases_rows import gaps, plain
from harness import Case, operand, result, row_of, run, values
from test_row_kernels import call, isas

RNG = np.random.default_rng(8)
UNIT = 2.0**-24


def wide_norm(x: np.ndarray, eps: float) -> np.ndarray:
    d = x.astype(np.float64)
    d = d - d.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + eps)


@pytest.mark.parametrize("n", [1, 7, 64, 577, 2048])
def test_norm(n: int) -> None:
    x = gaps(RNG, 3, n) + np.float32(3.0)
    want = wide_norm(x, 1e-5)
    got = call("norm", [x], fp=(1e-5,))
    size = 1.0 + np.abs(want)  # the mean, too, is rounded
    assert (np.abs(got - want) <= (16 + n / 8) * UNIT * size).all()
    w, b = plain(RNG, n), plain(RNG, n)
    assert np.array_equal(call("norm", [x, w], fp=(1e-5,)), got * w)
    assert np.array_equal(call("norm", [x, w, b], fp=(1e-5,)), got * w + b)


def test_a_mean_far_from_zero_is_taken_off_first() -> None:
    """The mean of squares less the square of the mean would have no digits left."""
    x = (np.float32(4096.0) + plain(RNG, 2, 96)).astype(np.float32)
    assert np.abs(call("norm", [x], fp=(1e-6,)) - wide_norm(x, 1e-6)).max() < 1e-3


@pytest.mark.parametrize("n", [1, 33, 576])
def test_l2_norm(n: int) -> None:
    x = gaps(RNG, 3, n)
    wide = x.astype(np.float64)
    length = np.sqrt((wide**2).sum(-1, keepdims=True))
    for eps in (1e-6, 1e3):
        want = wide / np.maximum(length, eps)
        got = call("l2_norm", [x], fp=(eps,))
        assert (np.abs(got - want) <= (4 + n / 32) * UNIT * np.abs(want)).all()
    assert not call("l2_norm", [np.zeros((1, n), np.float32)], fp=(1e-6,)).any()


@pytest.mark.parametrize("n", [1, 8, 31, 300])
def test_soft_max(n: int) -> None:
    x = gaps(RNG, 4, n, scale=20.0) - np.float32(50.0)
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    want = e / e.sum(-1, keepdims=True)
    got = call("soft_max", [x])
    spread = 4 + n / 16 + 2 * (x.max() - x.min())  # x - max is rounded before exp
    assert (np.abs(got - want) <= spread * UNIT * want + 3e-45).all()  # subnormals
    x[0, 0] = -np.inf
    assert n == 1 or call("soft_max", [x])[0, 0] == 0


@pytest.mark.parametrize("isa", isas("soft_max"))
def test_nan_poisons_its_row_alone(isa: str) -> None:
    x = plain(RNG, 3, 40)
    x[1, 37] = np.nan
    for name in ("soft_max", "norm", "l2_norm"):
        got = call(name, [x], fp=(1e-6,), isa=isa)
        assert np.isnan(got[1]).all() and np.isfinite(got[[0, 2]]).all(), name


def test_sum_rows() -> None:
    x = gaps(RNG, 2, 5, 333)
    case = Case([operand(x)], result("f32", (1, 5, 2)))
    got = values(run(row_of("sum_rows").index, case), np.float32, (1, 5, 2))
    size = np.abs(x).astype(np.float64).sum(-1)
    error = np.abs(got[..., 0] - x.astype(np.float64).sum(-1))
    assert (error <= size * 25 * UNIT).all()


def test_clamp_keeps_nan() -> None:
    x = np.array([[-3, -1, 0.5, 2, np.nan, np.inf, -np.inf]], np.float32)
    for isa in isas("clamp"):
        got = call("clamp", [x], fp=(-1.0, 1.5), isa=isa)
        assert got[0, :4].tolist() == [-1, -1, 0.5, 1.5] and np.isnan(got[0, 4])
        assert got[0, 5:].tolist() == [1.5, -1]


def test_xielu() -> None:
    """Each side of 0, far below it, and near it, where e^x - 1 - x nearly cancels."""
    near = np.linspace(-1, 1, 2001) ** 3
    x = np.stack([np.linspace(-12, 12, 2001), near, near * 1e-4]).astype(np.float32)
    n, p, beta, eps = 0.9, 0.7, 0.5, -1e-6
    got = call("xielu", [x], fp=(n, p, beta, eps))
    v = x.astype(np.float64)
    below = n * (np.expm1(np.minimum(v, eps)) - v) + beta * v
    want = np.where(v > 0, p * v * v + beta * v, below)
    size = np.abs(v) * (n + beta) + p * v * v + 1e-6
    assert (np.abs(got - want) <= 4 * UNIT * size).all()
    assert call("xielu", [np.array([[-1e30]], np.float32)], fp=(1.0, 1.0, 0.0, eps))[0, 0] == 1e30


def test_the_clamped_gate() -> None:
    gate, up = gaps(RNG, 3, 67, scale=6.0), gaps(RNG, 3, 67, scale=6.0)
    got = call("swiglu_oai", [gate, up], fp=(1.702, 7.0))
    g, u = np.minimum(gate.astype(np.float64), 7), np.clip(up.astype(np.float64), -7, 7)
    want = g / (1 + np.exp(-1.702 * g)) * (u + 1)
    bound = 1e-6 * np.abs(want) + 1e-6 * np.abs(g)  # u + 1 is rounded
    assert (np.abs(got - want) <= bound).all()
    assert (np.abs(gate) > 7).any() and (np.abs(up) > 7).any()


@pytest.mark.parametrize("isa", isas())
def test_fused_quantisation_equals_two_steps(isa: str) -> None:
    x, y, w = gaps(RNG, 4, 640), gaps(RNG, 4, 640), plain(RNG, 640)
    for name, srcs, fp in (
        ("norm", [x, w], (1e-6,)),
        ("norm", [x, w, w], (1e-6,)),
        ("swiglu_oai", [x, y], (1.702, 2.0)),
    ):
        two = call("quant_act", [call(name, srcs, fp=fp, isa=isa)], types=("x8", "f32"), isa=isa)
        one = call(f"{name}_quant", srcs, types=("x8", "f32"), fp=fp, isa=isa)
        assert np.array_equal(one, two), name


@pytest.mark.parametrize("axis", range(4))
def test_concat(axis: int) -> None:
    shape = [2, 2, 3, 70]
    parts = []
    for n in (3, 66):
        shape[3 - axis] = n
        parts.append(gaps(RNG, *shape))
    want = np.concatenate(parts, axis=3 - axis)
    case = Case([operand(p) for p in parts], result("f32", want.shape[::-1]), [axis])
    got = values(run(row_of("concat").index, case), np.float32, want.shape[::-1])
    assert np.array_equal(got, want)
