"""What the scalar row kernels mean, against numpy in float64.

Three kinds of tolerance: exact (copies, X8's integers), a few ulp (one element from one element),
and a bound that grows with what is summed. Equality of instruction sets and of any cut into tasks
is tested for every row of the table in test_every_kernel.py; here for NaN, whose bits are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from cases_rows import gaps, plain, rope, rope_params, rope_set_rows, rope_table, same_as
from harness import Case, operand, params, result, row_of, run, values

from llamapy.base.errors import KernelError
from llamapy.ffi.lib import load

RNG = np.random.default_rng(7)
ERF = np.vectorize(math.erf)


def isas(family: str = "add") -> list[str]:
    return [k.isa for k in load().kernels if k.family == family and not k.need & ~load().features]


def call(
    family: str, srcs: list[np.ndarray], *, types: tuple[str, str] = ("f32", "f32"),
    ne: tuple[int, ...] | None = None, ip: tuple[int, ...] | list[int] = (),
    fp: tuple[float, ...] | list[float] = (), isa: str = "scalar",
) -> np.ndarray:  # fmt: skip
    operands = [operand(s, s.itemsize) for s in srcs]
    shape = ne or operands[0].ne
    raw = run(row_of(family, *types, isa).index, Case(operands, result(types[0], shape), ip, fp))
    kinds = {"f32": np.float32, "f16": np.float16, "x8": np.uint8}
    if types[0] == "x8":
        return np.frombuffer(raw, np.uint8).reshape(-1, shape[0] // 32 * 40)
    return values(raw, kinds[types[0]], (*shape, 1, 1, 1)[:4]).reshape(srcs[0].shape[:-1] + (-1,))


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    """Largest distance in units of the last place of the exact value."""
    with np.errstate(over="ignore"):
        unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    return float((np.abs(got - want) / unit).max())


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


def gelu(x: np.ndarray) -> np.ndarray:
    """0.5 x (1 + tanh(y)) = x sigmoid(2 y)"""
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


Fn = Callable[[np.ndarray], np.ndarray]
# name: (meaning, ulps, absolute error allowed where the result itself cancels to nothing)
ONE: dict[str, tuple[Fn, float, float]] = {
    "exp": (np.exp, 1.1, 0.0),
    "tanh": (np.tanh, 1.5, 0.0),
    "sigmoid": (sigmoid, 2.5, 0.0),
    "silu": (lambda x: x * sigmoid(x), 3.0, 0.0),
    "gelu_quick": (lambda x: x * sigmoid(1.702 * x), 3.0, 8e-7),
    "gelu": (gelu, 3.0, 6e-7),
    "gelu_erf": (lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2))), 3.0, 6e-7),
    "relu": (lambda x: np.maximum(x, 0), 0.0, 0.0),
    "relu_sqr": (lambda x: np.maximum(x, 0) ** 2, 0.5, 0.0),
    "softplus": (lambda x: np.logaddexp(x, 0), 2.5, 0.0),
    "log": (np.log, 1.0, 0.0),
    "sqrt": (np.sqrt, 0.5, 0.0),
    "neg": (np.negative, 0.0, 0.0),
    "abs": (np.abs, 0.0, 0.0),
    "sqr": (np.square, 0.5, 0.0),
}
POSITIVE = ("log", "sqrt")
GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_erf": "gelu_erf",
         "geglu_quick": "gelu_quick", "reglu": "relu"}  # fmt: skip


def spread(n: int = 20001) -> np.ndarray:
    near = np.linspace(-12, 12, n)
    far = np.linspace(-86, 86, n)
    small = np.sign(RNG.standard_normal(n)) * 10.0 ** RNG.uniform(-30, 0, n)
    return np.stack([near, far, small]).astype(np.float32)


@pytest.mark.parametrize("name", ONE)
def test_one_value_ops(name: str) -> None:
    fn, allowed, absolute = ONE[name]
    x = np.abs(spread()) + np.float32(1e-30) if name in POSITIVE else spread()
    got, want = call(name, [x]).astype(np.float64), fn(x.astype(np.float64))
    close = np.abs(got - want) <= absolute
    got, want = np.where(close, 0, got), np.where(close, 0, want)
    assert ulps(got, want) <= allowed


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_two_value_ops_repeat_source_1(name: str) -> None:
    fn = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    x = plain(RNG, 4, 3, 30)
    for shape in ((4, 3, 30), (30,), (3, 30), (1,), (4, 1, 1), (3, 1), (4, 1, 30)):
        y = plain(RNG, *shape)
        assert np.array_equal(call(name, [x, y]), fn(x, y)), shape
    for shape, reps in (((4, 3, 10), (1, 1, 3)), ((2, 3, 30), (2, 1, 1)), ((5,), (6,))):
        y = plain(RNG, *shape)
        assert np.array_equal(call(name, [x, y]), fn(x, np.tile(y, reps))), shape


def test_scale_is_one_fused_rounding() -> None:
    x = plain(RNG, 5, 41)
    want = (x.astype(np.float64) * np.float64(np.float32(0.3)) + np.float32(-1.25)).astype(
        np.float32
    )
    assert np.array_equal(call("scale", [x], fp=(0.3, -1.25)), want)


def test_softcap() -> None:
    x = spread(999)
    got = call("softcap", [x], fp=(30.0,)).astype(np.float64)
    assert ulps(got, 30 * np.tanh(x.astype(np.float64) / 30)) <= 4


@pytest.mark.parametrize("name", GATES)
def test_gated_ops_from_two_sources_or_halves(name: str) -> None:
    fn, _, absolute = ONE[GATES[name]]
    gate, up = gaps(RNG, 3, 67), gaps(RNG, 3, 67)
    got = call(name, [gate, up])
    want = fn(gate.astype(np.float64)) * up
    assert (
        (np.abs(got - want) <= 8 * absolute) | (np.abs(got - want) <= 6e-7 * np.abs(want))
    ).all()
    halves = np.concatenate([gate, up], 1)
    assert np.array_equal(call(name, [halves], ne=(67, 3)), got)


@pytest.mark.parametrize("n", [1, 7, 64, 576, 2048])
def test_rms_norm(n: int) -> None:
    x, w = gaps(RNG, 3, n), plain(RNG, n)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    # The mean's error grows with the terms of one accumulator (n / 16) and the tree's four levels.
    bound = (3 + (n / 16 + 4) / 2) * 2.0**-24
    got = call("rms_norm", [x], fp=(1e-5,))
    assert (np.abs(got - want) <= bound * np.abs(want)).all()
    weighted = call("rms_norm", [x, w], fp=(1e-5,))
    assert np.array_equal(weighted, got * w), "the weight is a rounding of its own"


def unpack(raw: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q [rows, k], d, sum [rows, k / 32] of X8 rows."""
    q = raw[:, :k].view(np.int8)
    d = raw[:, k : k + k // 8].copy().view(np.float32)
    return q, d, raw[:, k + k // 8 :].copy().view(np.int32)


def test_quant_act() -> None:
    x = gaps(RNG, 5, 96)
    x[1, 32:64] = 0
    x[2] *= 1e20
    x[3, :32] = np.linspace(-127, 127, 32)
    q, d, total = unpack(call("quant_act", [x], types=("x8", "f32")), 96)
    groups = x.reshape(5, 3, 32)
    peak = np.abs(groups).max(-1)
    assert np.array_equal(d, peak / np.float32(127))
    inverse = np.where(peak > 0, np.float32(127) / np.where(peak > 0, peak, 1), np.float32(0))
    want = np.rint(groups * inverse[..., None].astype(np.float32)).astype(np.int8)
    assert np.array_equal(q.reshape(5, 3, 32), want)
    assert np.array_equal(total, want.astype(np.int32).sum(-1))


@pytest.mark.parametrize("isa", isas())
def test_fused_quantisation_equals_two_steps(isa: str) -> None:
    x, y, w = gaps(RNG, 4, 640), gaps(RNG, 4, 640), plain(RNG, 640)
    x8 = ("x8", "f32")
    two = call("quant_act", [call("rms_norm", [x, w], fp=(1e-6,), isa=isa)], types=x8, isa=isa)
    assert np.array_equal(call("rms_norm_quant", [x, w], types=x8, fp=(1e-6,), isa=isa), two)
    for name in GATES:
        two = call("quant_act", [call(name, [x, y], isa=isa)], types=x8, isa=isa)
        assert np.array_equal(call(f"{name}_quant", [x, y], types=x8, isa=isa), two), name


@pytest.mark.parametrize("isa", isas())
def test_nan_and_infinity_poison_their_group_alone(isa: str) -> None:
    x = plain(RNG, 1, 160)
    x[0, 40], x[0, 70], x[0, 100] = np.nan, np.inf, -np.inf
    q, d, total = unpack(call("quant_act", [x], types=("x8", "f32"), isa=isa), 160)
    assert np.isnan(d[0, 1]) and np.isinf(d[0, 2]) and np.isinf(d[0, 3])
    with np.errstate(invalid="ignore"):
        product = q.reshape(5, 32) * d[0][:, None]
    assert np.isnan(product[1]).all() and np.isnan(product[2, 6]) and np.isnan(product[3, 4])
    assert np.isfinite(product[[0, 4]]).all()
    assert np.array_equal(total[0], q.reshape(5, 32).astype(np.int32).sum(-1))


@pytest.mark.parametrize("name", ONE)
def test_nan_and_infinities_are_alike_everywhere(name: str) -> None:
    x = np.array([[np.nan, np.inf, -np.inf, -np.nan, 0.0, 1.0] * 7], np.float32)
    with np.errstate(all="ignore"):
        want = ONE[name][0](x.astype(np.float64)).astype(np.float32)
    for isa in isas():
        got = call(name, [x], isa=isa)
        assert np.array_equal(np.isnan(got), np.isnan(want)), isa
        assert np.array_equal(np.isinf(got), np.isinf(want)), isa


def test_cpy_converts_and_gathers() -> None:
    x = gaps(RNG, 3, 5, 33)
    assert np.array_equal(call("cpy", [x]), x)
    with np.errstate(over="ignore"):
        big = np.concatenate([plain(RNG, 1, 50, scale=1e-7), plain(RNG, 1, 50, scale=6e4)], 1)
        half = call("cpy", [big], types=("f16", "f32"))
        assert np.array_equal(half.view(np.uint16), big.astype(np.float16).view(np.uint16))
    every = np.arange(65536, dtype=np.uint16).view(np.float16).reshape(64, 1024)
    for isa in isas("cpy"):
        got = call("cpy", [every], types=("f32", "f16"), isa=isa)
        assert np.array_equal(got, every.astype(np.float32), equal_nan=True)
    turned = x.transpose(2, 0, 1)
    assert np.array_equal(call("cpy", [turned]), turned)


@pytest.mark.parametrize("isa", isas())
def test_every_f16_midpoint_rounds_to_even(isa: str) -> None:
    """All halves, the points between two of them, and their neighbours."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = ((halves[:-1] + halves[1:]) / 2).astype(np.float32)
    x = np.stack([middle, np.nextafter(middle, 0), np.nextafter(middle, np.float32(np.inf))])
    got = call("cpy", [x], types=("f16", "f32"), isa=isa)
    assert np.array_equal(got.view(np.uint16), x.astype(np.float16).view(np.uint16))


@pytest.mark.parametrize("isa", isas())
def test_set_rows_writes_its_rows_only(isa: str) -> None:
    table, rows = plain(RNG, 9, 40).astype(np.float16), plain(RNG, 3, 40)
    ids = np.array([7, 0, 3], np.int32)
    want = table.copy()
    want[ids] = rows.astype(np.float16)
    cache = operand(table)
    case = Case([cache, operand(rows), operand(ids)], same_as(cache), alias=0)
    index = row_of("set_rows", "f16", "f32", isa).index
    assert np.array_equal(np.frombuffer(run(index, case), np.float16).reshape(9, 40), want)
    for bad in (-1, 9):
        case.srcs[2] = operand(np.array([0, bad, 1], np.int32))
        with pytest.raises(KernelError):
            run(index, case)


def angles(pos: np.ndarray, n_dims: int, base: float, factors: np.ndarray | None) -> np.ndarray:
    theta = pos[:, None].astype(np.float64) * base ** (-2 * np.arange(n_dims // 2) / n_dims)
    return theta if factors is None else theta / factors


def rotated(x: np.ndarray, theta: np.ndarray, adjacent: bool, m: float = 1.0) -> np.ndarray:
    """x [tokens, heads, width], theta [tokens, pairs]"""
    n = theta.shape[1]
    c, s = np.cos(theta)[:, None, :] * m, np.sin(theta)[:, None, :] * m
    out = x.astype(np.float64)
    first = slice(0, 2 * n, 2) if adjacent else slice(0, n)
    second = slice(1, 2 * n, 2) if adjacent else slice(n, 2 * n)
    a, b = out[..., first].copy(), out[..., second].copy()
    out[..., first], out[..., second] = a * c - b * s, a * s + b * c
    return out


@pytest.mark.parametrize("isa", isas("rope"))
@pytest.mark.parametrize("mode", [0, 2])
def test_rope_turns_pairs(mode: int, isa: str) -> None:
    pos = np.array([0, 1, 7, 4095, 131071, 1_000_000], np.int32)
    for width, n_dims, base in ((64, 64, 1e4), (80, 32, 5e5), (38, 38, 1e6)):
        x = gaps(RNG, 6, 3, width, scale=1.0)
        factors = RNG.uniform(0.5, 8, n_dims // 2).astype(np.float32)
        for f in (None, factors):
            ip, fp = rope_params(n_dims, mode, freq_base=base)
            got = call("rope", [x, pos] + ([] if f is None else [f]), ip=ip, fp=fp, isa=isa)
            want = rotated(x, angles(pos, n_dims, base, f), mode == 0)
            assert np.abs(got - want).max() < 1e-6, (width, n_dims, base)
            assert np.array_equal(got[..., n_dims:], x[..., n_dims:])


def test_rope_yarn() -> None:
    """Peng et al. 2023, section 3: a ramp from the pair that turns beta_fast times to beta_slow."""
    n, base, ctx, scale = 64, 1e4, 4096, 0.25
    pos, x = np.arange(20, dtype=np.int32) * 700, gaps(RNG, 20, 2, n, scale=1.0)
    given = {"freq_scale": scale, "ext_factor": 1.0, "attn_factor": 1.1, "n_ctx_orig": ctx}
    ip, fp = rope_params(n, 2, freq_base=base, **given)

    def pair(turns: float) -> float:
        return n * math.log(ctx / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(0, math.floor(pair(32))), min(n - 1, math.ceil(pair(1)))
    mix = 1 - np.clip((np.arange(n // 2) - low) / max(0.001, high - low), 0, 1)
    theta = angles(pos, n, base, None)
    theta = theta * scale * (1 - mix) + theta * mix
    m = 1.1 * (1 + 0.1 * math.log(1 / scale))
    got = call("rope", [x, pos], ip=ip, fp=fp)
    assert np.abs(got - rotated(x, theta, False, m)).max() < 2e-6


def test_rope_with_four_positions() -> None:
    """Sections of pairs turn by time, height, width and extra; dealt out in turn in mode 40."""
    n, tokens = 48, 5
    pos = RNG.integers(0, 500, (4, tokens)).astype(np.int32)
    x = gaps(RNG, tokens, 2, n, scale=1.0)
    blocks = np.repeat([0, 1, 2, 3], [8, 6, 6, 4])
    turns = np.array([i % 3 if i < (24, 18, 18)[i % 3] else 3 for i in range(24)])
    for mode, sections, axis in ((8, (8, 6, 6, 4), blocks), (40, (8, 6, 6, 4), turns)):
        theta = pos[axis].T * 1e4 ** (-2 * np.arange(24) / n)
        ip, fp = rope_params(n, mode, sections=sections)
        got = call("rope", [x, pos.reshape(-1)], ip=ip, fp=fp)
        assert np.abs(got - rotated(x, theta, False)).max() < 1e-6, mode
    # Vision: n_dims is half the head, and the exponent starts anew with each section.
    axis, step = np.repeat([0, 1], 12), np.tile(np.arange(12), 2)
    theta = pos[axis].T * 1e4 ** (-2 * step / 24)
    ip, fp = rope_params(24, 24, sections=(12, 12, 0, 0))
    got = call("rope", [x, pos.reshape(-1)], ip=ip, fp=fp)
    assert np.abs(got - rotated(x, theta, False)).max() < 1e-6


@pytest.mark.parametrize(
    "given",
    [{"mode": 1}, {"n_dims": 66}, {"n_dims": 7}, {"n_dims": 0}, {"freq_base": 0.0}, {"mode": 8}],
    ids=str,
)
def test_rope_refuses_what_it_does_not_know(given: dict[str, float]) -> None:
    known = {"n_dims": 64, "mode": 2} | given
    rest = {k: v for k, v in known.items() if k not in ("n_dims", "mode")}
    ip, fp = rope_params(int(known["n_dims"]), int(known["mode"]), **rest)
    with pytest.raises(KernelError):
        call("rope", [plain(RNG, 2, 1, 64), np.zeros(8, np.int32)], ip=ip, fp=fp)


@pytest.mark.parametrize("isa", isas("rope_apply"))
def test_a_table_of_angles_gives_the_bits_of_rope(isa: str) -> None:
    cases = [make(np.random.default_rng(3), row_of("rope")) for make in (rope, rope_table)]
    for whole, made in zip(*cases, strict=True):
        table = np.frombuffer(run(row_of("rope_table").index, made), np.float32)
        srcs = [whole.srcs[0], operand(table.reshape(made.dst.ne[1::-1]))]
        case = Case(srcs, whole.dst, whole.ip[1:2], alias=whole.alias)
        got = run(row_of("rope_apply", isa=isa).index, case)
        assert got == run(row_of("rope", isa=isa).index, whole), whole.name


def test_a_table_that_does_not_fit_is_refused() -> None:
    ip, fp = rope_params(64, 2)
    for ne in ((63, 5), (128, 5)):
        with pytest.raises(KernelError):
            call("rope_table", [np.zeros(5, np.int32)], ne=ne, ip=ip, fp=fp)
    x = plain(RNG, 5, 1, 64)
    for shape, mode in (((5, 66), 2), ((5, 132), 0), ((4, 64), 2)):
        with pytest.raises(KernelError):
            call("rope_apply", [x, plain(RNG, *shape)], ip=(mode,))


@pytest.mark.parametrize("isa", isas("rope_set_rows"))
@pytest.mark.parametrize("wtype", ["f32", "f16"])
def test_rows_turned_as_they_are_stored_have_the_bits_of_two_steps(wtype: str, isa: str) -> None:
    into = row_of("rope_set_rows", wtype, isa=isa)
    for case in rope_set_rows(np.random.default_rng(4), into):
        cache, x, ids, table = case.srcs
        step = Case([x, table], result("f32", x.ne), case.ip)
        turned = values(run(row_of("rope_apply", isa=isa).index, step), np.float32, x.ne)
        by_head = operand(np.ascontiguousarray(turned[0].swapaxes(0, 1)))
        stored = Case([cache, by_head, ids], case.dst, alias=0)
        assert run(into.index, case) == run(row_of("set_rows", wtype, isa=isa).index, stored)


@pytest.mark.parametrize("bad", ["id", "x", "heads", "table", "ids"])
def test_turned_rows_that_do_not_fit_are_refused(bad: str) -> None:
    x = plain(RNG, 5, 4 if bad == "heads" else 3, 60 if bad == "x" else 64)
    ids = np.array([1, 2, 3, 8 if bad == "id" else 0], np.int32)
    ids = ids if bad == "ids" else np.append(ids, np.int32(4))
    cache, table = plain(RNG, 3, 8, 64), plain(RNG, 4 if bad == "table" else 5, 64)
    srcs = [operand(a) for a in (cache, x, ids, table)]
    with pytest.raises(KernelError):
        run(row_of("rope_set_rows").index, Case(srcs, same_as(srcs[0]), (2,), alias=0))


def test_rows_of_x8_must_be_whole_groups() -> None:
    dst = result("x8", (32, 2))
    dst.ne = (33, 2, 1, 1)
    with pytest.raises(KernelError):
        run(row_of("quant_act", "x8", "f32").index, Case([operand(plain(RNG, 2, 33))], dst))


def test_params_are_lowered_in_the_order_of_the_row() -> None:
    ip, fp = params("scale", scale=2.0, bias=3.0)
    assert call("scale", [np.ones((1, 3), np.float32)], ip=ip, fp=fp).tolist() == [[5.0] * 3]
