"""The thin vector layer: plain C against numpy, and every instruction set against plain C, bit for
bit except for which NaN a NaN is."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from llamapy.ffi.lib import load

ROOT = Path(__file__).parents[2]
FLAGS = {
    "scalar": [],
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avx512": ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"],
}
CC = shutil.which("cc") or shutil.which("gcc")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler to build the probe with")

Probe = Callable[..., np.ndarray]


@pytest.fixture(scope="session")
def probes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Probe]:
    """isa -> call(name, x, y, z)"""
    folder = tmp_path_factory.mktemp("probe")
    runnable = {k.isa for k in load().kernels if not k.need & ~load().features}
    return {isa: _build(folder, isa) for isa in FLAGS if isa in runnable}


def _build(folder: Path, isa: str) -> Probe:
    out = folder / f"{isa}.so"
    command = [
        str(CC),
        "-std=c11",
        "-O2",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-shared",
        "-fPIC",
    ]
    command += [*FLAGS[isa], f"-I{ROOT / 'native/include'}", "-include", f"vec_{isa}.h"]
    command += [str(Path(__file__).with_name("vec_probe.c")), "-o", str(out), "-lm"]
    subprocess.run(command, check=True)
    dll = ctypes.CDLL(str(out))

    def call(name: str, x: np.ndarray, *more: np.ndarray, n_out: int = 0) -> np.ndarray:
        y, z = (*more, x, x)[:2]
        arrays = [np.ascontiguousarray(a, np.float32) for a in (x, y, z)]
        result = np.zeros(n_out or len(x), np.float32)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*arrays, result)]
        getattr(dll, f"probe_{name}")(*pointers, ctypes.c_int64(len(x)))
        return result

    return call


def values(n: int = 4096, seed: int = 1) -> np.ndarray:
    """Random bits (every exponent, subnormals, NaN) among ordinary and special values."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    plain = (rng.standard_normal(n) * 10).astype(np.float32)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 0.5, -0.5, 1.5, 2.5], "f4")
    pick = rng.integers(0, 3, n)
    return np.choose(pick, [bits, plain, rng.choice(special, n)]).astype(np.float32)


X, Y, Z = values(seed=1), values(seed=2), values(seed=3)
SAME = [
    "add", "sub", "mul", "div", "sqrt", "max", "min", "fma", "fnma", "gt", "ge", "lt", "eq",
    "nan", "and_or", "round_i", "from_i", "i_add", "i_sub", "i_bits", "i_shifts", "i_minmax",
    "i_compare", "i_equal", "sum", "hmax", "i_hmax", "i_hsum", "swap_pairs", "store_i8",
    "sum16", "transpose16", "pick", "load_u8", "load_i8", "set1_f16", "load_bf16", "exp", "log",
    "expm1", "softplus", "sigmoid", "tanh", "erf",
]  # fmt: skip


def assert_same(got: np.ndarray, want: np.ndarray, what: str) -> None:
    a, b = got.view(np.uint32), want.view(np.uint32)
    off = (a != b) & ~(np.isnan(got) & np.isnan(want))
    assert not off.any(), f"{what}: {off.sum()} differ, first at {np.flatnonzero(off)[0]}"


@pytest.mark.parametrize("name", SAME)
def test_every_set_equals_plain_c(name: str, probes: dict[str, Probe]) -> None:
    want = probes["scalar"](name, X, Y, Z)
    for isa, call in probes.items():
        assert_same(call(name, X, Y, Z), want, f"{name} {isa}")


def test_angles_and_powers_of_two_equal_plain_c(probes: dict[str, Probe]) -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1e5, 1e5, 4096).astype(np.float32)
    near = rng.uniform(0.5, 2, 4096).astype(np.float32)
    power = rng.integers(-252, 253, 4096).astype(np.float32)
    for isa, call in probes.items():
        for name in ("sin", "cos"):
            assert_same(call(name, x), probes["scalar"](name, x), f"{name} {isa}")
        with np.errstate(over="ignore"):
            want = np.ldexp(near.astype(np.float64), power.astype(np.int32)).astype(np.float32)
        assert_same(call("ldexp", near, power), want, f"ldexp {isa}")


def test_plain_c_means_what_it_says(probes: dict[str, Probe]) -> None:
    c = probes["scalar"]
    with np.errstate(all="ignore"):
        assert_same(c("add", X, Y), X + Y, "add")
        assert_same(c("div", X, Y), X / Y, "div")
        assert_same(c("sqrt", X), np.sqrt(X), "sqrt")
        assert_same(c("max", X, Y), np.where(X > Y, X, Y), "max")
        assert_same(c("min", X, Y), np.where(X < Y, X, Y), "min")
        fits = (X >= -(2.0**31)) & (X < 2.0**31)
        rounded = np.where(fits, np.rint(X), -(2.0**31)).astype(np.int64).astype(np.int32)
    assert np.array_equal(c("round_i", X).view(np.int32), rounded)
    i = X.view(np.int32)
    assert_same(c("from_i", X), i.astype(np.float32), "from_i")
    assert np.array_equal(c("store_i8", X).view(np.int8)[: len(X)], i.astype(np.int8))
    blocks = X.reshape(-1, 16, 16)
    assert_same(c("transpose16", X), blocks.transpose(0, 2, 1).ravel(), "transpose")


def test_fma_rounds_once(probes: dict[str, Probe]) -> None:
    a = np.float32(1 + 2.0**-12) * np.ones(16, np.float32)
    c = -np.float32(1 + 2.0**-11) * np.ones(16, np.float32)
    for isa, call in probes.items():
        assert (call("fma", a, a, c) == np.float32(2.0**-24)).all(), isa
        assert (call("fnma", a, a, -c) == np.float32(-(2.0**-24))).all(), isa


def test_the_tree_is_the_canonical_one(probes: dict[str, Probe]) -> None:
    x = np.random.default_rng(9).standard_normal((64, 16)).astype(np.float32)
    a = x.copy()
    for half in (8, 4, 2, 1):
        a = a[:, :half] + a[:, half : 2 * half]
    for isa, call in probes.items():
        assert np.array_equal(call("sum", x.ravel())[::16], a[:, 0]), isa
        assert np.array_equal(call("sum16", x.ravel())[:64], a[:, 0]), isa


def test_parts_touch_their_lanes_only(probes: dict[str, Probe]) -> None:
    x = np.random.default_rng(10).standard_normal(16).astype(np.float32)
    lanes = np.where(np.arange(16) < np.arange(17)[:, None], x, 0)
    halves = np.where(np.arange(16) < np.arange(17)[:, None], x.astype(np.float16), 0)
    for isa, call in probes.items():
        out = call("part", x, n_out=1088).reshape(4, 17, 16)
        assert np.array_equal(out[0], lanes), isa
        assert np.array_equal(out[1], lanes), isa
        assert np.array_equal(out[2], halves.astype(np.float32)), isa
        stored = np.ascontiguousarray(out[3]).view(np.float16)[:, :16]
        assert np.array_equal(stored, halves), isa


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    return float((np.abs(got - want) / unit).max())


def test_accuracy(probes: dict[str, Probe]) -> None:
    c, rng = probes["scalar"], np.random.default_rng(12)
    x = np.concatenate([rng.uniform(-103, 88, 20000), rng.uniform(-1, 1, 12768)]).astype("f4")
    assert ulps(c("exp", x), np.exp(x.astype(np.float64))) <= 1.1
    assert ulps(c("softplus", x), np.logaddexp(x.astype(np.float64), 0)) <= 2.5
    x = np.concatenate([-(10.0 ** rng.uniform(-37, 2, 20000)), rng.uniform(-4, 0, 12768)])
    x = x.astype(np.float32)
    assert ulps(c("expm1", x), np.expm1(x.astype(np.float64))) <= 2
    x = np.concatenate([10.0 ** rng.uniform(-44, 38, 20000), rng.uniform(0.5, 2, 12768)])
    x = x.astype(np.float32)
    assert ulps(c("log", x), np.log(x.astype(np.float64))) <= 1.1
    x = rng.uniform(-5, 5, 32768).astype(np.float32)
    assert ulps(c("erf", x), np.vectorize(math.erf)(x.astype(np.float64))) <= 2
    x = np.concatenate([rng.uniform(-10, 10, 16384), rng.uniform(-1e5, 1e5, 16384)]).astype("f4")
    assert np.abs(c("sin", x) - np.sin(x.astype(np.float64))).max() < 1e-7
    assert np.abs(c("cos", x) - np.cos(x.astype(np.float64))).max() < 1e-7


def test_edges(probes: dict[str, Probe]) -> None:
    inf = np.inf
    edges = {
        "exp": {
            -inf: 0.0,
            inf: inf,
            0.0: 1.0,
            88.7228: None,
            88.73: inf,
            -104.0: 0.0,
            -103.0: None,
        },
        "expm1": {-inf: -1.0, 0.0: 0.0, -1e-38: -1e-38, -100.0: -1.0},
        "softplus": {-inf: 0.0, inf: inf, 50.0: 50.0, -100.0: None},
        "log": {0.0: -inf, inf: inf, 1.0: 0.0, -1.0: np.nan, 1e-45: None},
        "tanh": {-inf: -1.0, inf: 1.0, 20.0: 1.0, 0.0: 0.0},
        "sigmoid": {-inf: 0.0, inf: 1.0, 0.0: 0.5, -100.0: None},
        "erf": {-inf: -1.0, inf: 1.0, 0.0: 0.0, 4.5: 1.0},
        "sin": {0.0: 0.0, inf: np.nan},
        "cos": {0.0: 1.0, inf: np.nan},
    }
    for isa, call in probes.items():
        for name, known in edges.items():
            assert np.isnan(call(name, np.full(16, np.nan, "f4"))).all(), (isa, name)
            for x, want in known.items():
                got = call(name, np.full(16, x, np.float32))[0]
                if want is None:  # finite and not flushed to zero
                    assert np.isfinite(got) and got != 0, (isa, name, x, got)
                else:
                    assert np.array_equal(got, np.float32(want), equal_nan=True), (isa, name, x)
