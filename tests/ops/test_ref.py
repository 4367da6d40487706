"""The numpy meaning of every op, against values worked out by hand and formulas written anew."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from llamapy.base.errors import KernelError
from llamapy.base.types import BY_NAME, F32, I32, X8, Type
from llamapy.devices.ref import MEANING, RefDevice
from llamapy.devices.ref.attention import slopes
from llamapy.devices.ref.memory import decode, encode, rows, x8_planes, x8_rows
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import GLU, OPS, make, permute, reshape, transpose, view
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor

Array = npt.NDArray[np.generic]


class Net:
    """A graph on one reference device; arrays are given and returned as [.., ne1, ne0]."""

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self.device = RefDevice(dtype)
        self.given: list[tuple[Tensor, Array]] = []

    def put(self, values: object, type_: Type = F32) -> Tensor:
        a = np.asarray(values)
        shape = (*a.shape[::-1], 1, 1, 1, 1)[:4]
        t = Tensor(type_, shape, flags=INPUT, name=f"in{len(self.given)}")
        self.given.append((t, encode(a, type_)))
        return t

    def ids(self, values: object) -> Tensor:
        return self.put(np.asarray(values, np.int32), I32)

    def run(self, *outputs: Tensor) -> Array:
        for out in outputs:
            out.flags |= OUTPUT
        g = CGraph()
        g.build_forward_expand(*outputs)
        compiled = Scheduler([self.device]).compile(g)
        for t, stored in self.given:
            if t.buffer is not None:
                t.buffer.write(t.offset_bytes, np.ascontiguousarray(stored))
        compiled.run()
        return value_of(outputs[-1])


def value_of(t: Tensor) -> Array:
    return decode(rows(t), t.type, np.float64).copy()


def one(name: str, *values: object, **params: object) -> Array:
    net = Net()
    return net.run(make(name, *(net.put(v) for v in values), **params))


def rand(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_every_op_has_a_meaning_and_every_meaning_an_op() -> None:
    assert MEANING.keys() == {name for name, op in OPS.items() if not op.view}


@pytest.mark.parametrize(
    ("op", "want"),
    [
        ("add", [11, 22, 13]),
        ("sub", [-9, -18, -7]),
        ("mul", [10, 40, 30]),
        ("div", [0.1, 0.1, 0.3]),
    ],
)
def test_two_by_two(op: str, want: list[float]) -> None:
    np.testing.assert_allclose(one(op, [1, 2, 3], [10, 20, 10]).ravel(), want, rtol=1e-7)


def test_the_second_source_is_repeated_along_every_axis() -> None:
    a = rand(2, 4, 6)
    b = rand(1, 2, 3, seed=2)
    got = one("add", a, b)[0]
    for i in np.ndindex(a.shape):
        assert got[i] == np.float32(np.float64(a[i]) + b[0, i[1] % 2, i[2] % 3])


X = [-3.0, -1.0, -0.25, 0.0, 0.5, 2.0]


@pytest.mark.parametrize(
    ("op", "f"),
    [
        ("silu", lambda x: x / (1 + math.exp(-x))),
        ("gelu", lambda x: x / (1 + math.exp(-2 * 0.7978845608028654 * (x + 0.044715 * x**3)))),
        ("gelu_erf", lambda x: x * (1 - math.erfc(x / 2**0.5) / 2)),
        ("gelu_quick", lambda x: x / (1 + math.exp(-1.702 * x))),
        ("relu", lambda x: x if x > 0 else 0.0),
        ("relu_sqr", lambda x: x * x if x > 0 else 0.0),
        ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("tanh", lambda x: (math.exp(2 * x) - 1) / (math.exp(2 * x) + 1)),
        ("exp", lambda x: math.e**x),
    ],
)
def test_unary(op: str, f: object) -> None:
    np.testing.assert_allclose(one(op, X).ravel(), [f(x) for x in X], rtol=1e-6, atol=1e-9)


def test_sigmoid_of_large_values_does_not_overflow() -> None:
    assert one("sigmoid", [-1000.0, 1000.0]).ravel().tolist() == [0.0, 1.0]
    assert one("silu", [-1000.0, 1000.0]).ravel().tolist() == [0.0, 1000.0]


@pytest.mark.parametrize("name", GLU)
def test_gate_and_up_as_two_sources_or_one(name: str) -> None:
    gate, up = rand(3, 32), rand(3, 32, seed=2)
    act = {"swiglu": "silu", "geglu": "gelu", "geglu_erf": "gelu_erf"}.get(name)
    act = act or {"geglu_quick": "gelu_quick", "reglu": "relu"}[name]
    want = one(act, gate) * up
    np.testing.assert_allclose(one(name, gate, up), want, rtol=1e-6, atol=1e-9)
    joined = one(name, np.concatenate((gate, up), axis=1))
    assert np.array_equal(joined, one(name, gate, up))


def test_scale_and_softcap() -> None:
    assert one("scale", [1.0, -2.0], scale=3.0, bias=0.5).ravel().tolist() == [3.5, -5.5]
    got = one("softcap", [100.0, -7.0, 0.0], cap=10.0).ravel()
    np.testing.assert_allclose(got, [10.0, -6.04367777, 0.0], rtol=1e-6)


def test_rms_norm_by_hand() -> None:
    """Mean square of 3, 4 is 12.5; with eps 0.5 the root is sqrt(13)."""
    np.testing.assert_allclose(one("rms_norm", [[3.0, 4.0]], eps=0.5).ravel(),
                               [3 / 13**0.5, 4 / 13**0.5], rtol=1e-7)  # fmt: skip
    weighted = one("rms_norm", [[3.0, 4.0], [6.0, 8.0]], [2.0, -1.0], eps=0.0)[0, 0]
    want = [6 / 12.5**0.5, -4 / 12.5**0.5]
    np.testing.assert_allclose(weighted, [want, want], rtol=1e-7)


def test_mul_mat_by_hand_and_with_an_addend() -> None:
    w = [[1, 2, 3], [4, 5, 6]]
    x = [[1, 0, -1], [2, 1, 0]]
    assert one("mul_mat", w, x)[0, 0].tolist() == [[-2, -2], [4, 13]]
    assert one("mul_mat", w, x, [10, 20])[0, 0].tolist() == [[8, 18], [14, 33]]


def test_mul_mat_neighbouring_matrices_share_a_weight() -> None:
    w, x = rand(1, 2, 5, 8), rand(1, 6, 3, 8, seed=2)
    got = one("mul_mat", w, x)
    for i in range(6):
        np.testing.assert_allclose(got[0, i], x[0, i].astype(np.float64) @ w[0, i // 3].T,
                                   rtol=1e-5, atol=1e-6)  # fmt: skip


@pytest.mark.parametrize("name", ["f16", "bf16", "q4_0", "q8_0", "q5_1"])
def test_weights_of_other_types(name: str) -> None:
    net = Net()
    w, x = rand(6, 64), rand(3, 64, seed=2)
    got = net.run(make("mul_mat", net.put(w, BY_NAME[name]), net.put(x)))[0, 0]
    exact = x.astype(np.float64) @ w.T
    bound = {"f16": 1e-3, "bf16": 8e-3, "q8_0": 1e-2, "q4_0": 0.15, "q5_1": 0.08}[name]
    error = np.abs(got - exact).max() / np.abs(exact).max()
    assert 0 < error < bound
    stored = decode(encode(w, BY_NAME[name]), BY_NAME[name], np.float64)
    np.testing.assert_allclose(got, x.astype(np.float64) @ stored.T, rtol=1e-6, atol=1e-6)


def test_get_rows_from_a_quantised_table() -> None:
    net = Net()
    table = rand(10, 32)
    got = net.run(make("get_rows", net.put(table, BY_NAME["q8_0"]), net.ids([7, 0, 7])))[0, 0]
    want = decode(encode(table, BY_NAME["q8_0"]), BY_NAME["q8_0"], np.float64)[[7, 0, 7]]
    assert np.array_equal(got, want.astype(np.float32))


def test_get_rows_plane_by_plane() -> None:
    net = Net()
    table = rand(2, 5, 4)
    got = net.run(make("get_rows", net.put(table), net.ids([[1, 2, 3], [4, 0, 1]])))[0]
    assert np.array_equal(got, np.stack((table[0, [1, 2, 3]], table[1, [4, 0, 1]])))


def test_a_row_outside_its_table_is_named() -> None:
    net = Net()
    out = make("get_rows", net.put(rand(4, 8)), net.ids([4]))
    out.name = "embd"
    with pytest.raises(KernelError, match=r"embd \(get_rows\): .*outside 0..3"):
        net.run(out)


@pytest.mark.parametrize("name", ["f32", "f16", "q8_0"])
def test_set_rows_changes_these_rows_and_no_other(name: str) -> None:
    net = Net()
    type_ = BY_NAME[name]
    before, new = rand(6, 32), rand(2, 32, seed=2)
    cache = net.put(before, type_)
    cache.buffer = net.device.alloc(net.device.default_buft, cache.n_bytes, "any")
    got = net.run(make("set_rows", cache, net.put(new), net.ids([4, 1])))[0, 0]
    want = decode(encode(before, type_), type_, np.float64)
    want[[4, 1]] = decode(encode(new, type_), type_, np.float64)
    assert np.array_equal(got, want)


def test_a_read_after_a_write_to_the_cache_sees_it() -> None:
    net = Net()
    cache = net.put(np.zeros((4, 2)))
    cache.buffer = net.device.alloc(net.device.default_buft, cache.n_bytes, "any")
    store = make("set_rows", cache, net.put([[5.0, 6.0]]), net.ids([2]))
    seen = make("cpy", view(cache, (2, 1), (8,), 16), type="f32")
    assert net.run(store, seen).ravel().tolist() == [5.0, 6.0]


def test_strides_are_honoured() -> None:
    net = Net()
    a = rand(3, 4, 5)
    x = net.put(a)
    assert np.array_equal(net.run(make("cpy", permute(x, 0, 2, 1, 3), type="f32"))[0],
                          a.transpose(1, 0, 2))  # fmt: skip
    b = Net()
    y = b.put(a)
    assert np.array_equal(b.run(make("cpy", transpose(y), type="f32"))[0], a.swapaxes(1, 2))
    c = Net()
    z = view(c.put(a), (2, 4, 3), (20, 80), 8)
    assert np.array_equal(c.run(make("add", z, z))[0], 2 * a[:, :, 2:4])
    d = Net()
    flat = make("silu", reshape(d.put(a), 60))
    assert np.array_equal(d.run(flat).ravel(), one("silu", a).ravel())


def test_x8_is_the_layout_and_rounding_of_the_header() -> None:
    x = np.zeros((1, 64), np.float32)
    x[0, :4] = [127.0, -127.0, 0.5, 1.5]  # ties go to the even neighbour
    x[0, 32] = -254.0
    q, d, sums = x8_planes(x8_rows(x))
    assert x8_rows(x).shape == (1, 80)
    assert q[0, :4].tolist() == [127, -127, 0, 2]
    assert d[0].tolist() == [1.0, 2.0]
    assert sums[0].tolist() == [2, -127]
    assert decode(x8_rows(x), X8, np.float64)[0, 32] == -254.0
    zero = x8_planes(x8_rows(np.zeros((1, 32), np.float32)))
    assert not zero[0].any() and not zero[1].any() and not zero[2].any()


def test_quantised_twins_are_the_plain_ops_quantised() -> None:
    gate, up, w = rand(2, 64), rand(2, 64, seed=2), rand(64, seed=3)
    for name in GLU:
        want = decode(x8_rows(one(name, gate, up)), X8, np.float64)
        np.testing.assert_allclose(one(f"{name}_quant", gate, up), want, atol=2e-2)
    want = decode(x8_rows(one("rms_norm", gate, w, eps=1e-5)), X8, np.float64)
    np.testing.assert_allclose(one("rms_norm_quant", gate, w, eps=1e-5), want, atol=2e-2)
    assert np.array_equal(one("quant_act", gate)[0, 0], decode(x8_rows(gate), X8, np.float64))


ROPE = dict(
    n_dims=8, mode=0, n_ctx_orig=64, sections=[0, 0, 0, 0], freq_base=100.0, freq_scale=1.0,
    ext_factor=0.0, attn_factor=1.0, beta_fast=32.0, beta_slow=1.0,
)  # fmt: skip


def turn(a: float, b: float, angle: float) -> tuple[float, float]:
    z = complex(a, b) * complex(math.cos(angle), math.sin(angle))
    return z.real, z.imag


def roped(x: Array, pos: object, factors: object = None, **changed: object) -> Array:
    net = Net()
    extra = [] if factors is None else [net.put(factors)]
    return net.run(make("rope", net.put(x), net.ids(pos), *extra, **{**ROPE, **changed}))


@pytest.mark.parametrize(("mode", "pairs"), [
    (0, [(0, 1), (2, 3), (4, 5), (6, 7)]),
    (2, [(0, 4), (1, 5), (2, 6), (3, 7)]),
])  # fmt: skip
def test_rope_turns_pairs_and_leaves_the_rest(mode: int, pairs: list[tuple[int, int]]) -> None:
    x = rand(3, 2, 10)  # [n_tokens, n_head, 10]: the last 2 are not rotated
    pos = [0, 5, 40]
    got = roped(x, pos, mode=mode)[0]
    for t, head in np.ndindex(3, 2):
        for i, (a, b) in enumerate(pairs):
            angle = pos[t] * 100.0 ** (-2 * i / 8)
            want = turn(x[t, head, a], x[t, head, b], angle)
            np.testing.assert_allclose(got[t, head, [a, b]], want, rtol=1e-5, atol=1e-6)
    assert np.array_equal(got[..., 8:], x[..., 8:])
    np.testing.assert_array_equal(got[0], x[0])


def test_rope_frequency_factors_and_scale() -> None:
    x = rand(1, 1, 8)
    factors = [1.0, 2.0, 4.0, 8.0]
    got = roped(x, [6], factors, freq_scale=0.5)[0, 0, 0]
    for i in range(4):
        angle = 0.5 * 6 * 100.0 ** (-i / 4) / factors[i]
        want = turn(x[0, 0, 2 * i], x[0, 0, 2 * i + 1], angle)
        np.testing.assert_allclose(got[2 * i : 2 * i + 2], want, rtol=1e-5, atol=1e-6)


def test_rope_yarn() -> None:
    """With base 100 and a context of 64, 4 turns fall on pair 1.62 and 1 turn on pair 4.03: the
    ramp runs from pair 1 to pair 5."""
    x = np.zeros((1, 1, 16), np.float32)
    x[..., ::2] = 1
    got = roped(x, [3], n_dims=16, freq_scale=0.25, ext_factor=1.0, attn_factor=2.0,
                beta_fast=4.0, beta_slow=1.0)[0, 0, 0]  # fmt: skip
    mscale = 2.0 * (1 + 0.1 * math.log(4))
    for i in range(8):
        own = 1 - min(1, max(0, (i - 1) / 4))  # share of the unscaled angle
        theta = 3 * 100.0 ** (-2 * i / 16)
        angle = own * theta + (1 - own) * theta / 4
        want = [mscale * math.cos(angle), mscale * math.sin(angle)]
        np.testing.assert_allclose(got[2 * i : 2 * i + 2], want, rtol=1e-5, atol=1e-6)


PLANES = [[3, 4], [10, 20], [100, 200], [1000, 2000]]  # time, height, width, extra of two tokens


@pytest.mark.parametrize(("mode", "axes"), [
    (8, [0, 0, 1, 1, 1, 2, 3, 3]),   # sections 2, 3, 1, 2 one after another
    (40, [0, 1, 2, 0, 1, 3, 3, 1]),  # dealt out in turn: 2 of time, 3 of height, 1 of width
])  # fmt: skip
def test_rope_with_sections(mode: int, axes: list[int]) -> None:
    x = rand(2, 1, 16)
    got = roped(x, np.ravel(PLANES), mode=mode, n_dims=16, sections=[2, 3, 1, 2])[0]
    for t in range(2):
        for i, axis in enumerate(axes):
            angle = PLANES[axis][t] * 100.0 ** (-2 * i / 16)
            want = turn(x[t, 0, i], x[t, 0, i + 8], angle)
            np.testing.assert_allclose(got[t, 0, [i, i + 8]], want, rtol=1e-4, atol=1e-5)


def test_rope_vision_counts_from_the_start_of_each_section() -> None:
    x = rand(2, 1, 16)
    got = roped(x, np.ravel(PLANES), mode=24, n_dims=8, sections=[4, 4, 0, 0])[0]
    for t in range(2):
        for i in range(8):
            angle = PLANES[i // 4][t] * 100.0 ** (-2 * (i % 4) / 8)
            want = turn(x[t, 0, i], x[t, 0, i + 8], angle)
            np.testing.assert_allclose(got[t, 0, [i, i + 8]], want, rtol=1e-4, atol=1e-5)


class Attention:
    """Two lists over 7 cells each out of order, with gaps; heads 4 on 2 of the cache."""

    def __init__(self, n_kv: int = 256) -> None:
        rng = np.random.default_rng(5)
        self.n_tokens, self.n_head, self.n_head_kv, self.n_k, self.n_v = 3, 4, 2, 8, 6
        self.q = rng.standard_normal((3, 4, 8)).astype(np.float32)
        self.k = rng.standard_normal((200, 2, 8)).astype(np.float32)
        self.v = rng.standard_normal((200, 2, 6)).astype(np.float32)
        self.idx = np.full((2, n_kv), -1, np.int32)
        cells = rng.permutation(200)
        self.idx[0, :100], self.idx[1, :90] = cells[:100], cells[100:190]
        self.idx[0, [3, 70]] = -1
        self.range = np.array([[0, 0, 100, 99], [1, 20, 81, 80], [1, 0, 0, 5]], np.int32)

    def tensors(self, net: Net) -> list[Tensor]:
        return [net.put(self.q), net.put(self.k), net.put(self.v), net.ids(self.idx),
                net.ids(self.range)]  # fmt: skip

    def want(self, scale: float, max_bias: float, softcap: float, sinks: object = None) -> Array:
        """Place by place, from the text."""
        out = np.zeros((3, 4, 6))
        for t, h in np.ndindex(3, 4):
            which, lo, hi, own = self.range[t]
            weights, values = [], []
            for j in range(lo, hi):
                cell = self.idx[which, j]
                if cell < 0:
                    continue
                s = scale * float(self.q[t, h].astype(np.float64) @ self.k[cell, h // 2])
                s = softcap * math.tanh(s / softcap) if softcap else s
                s += 2 ** (-max_bias / 4 * (h + 1)) * (j - own) if max_bias else 0
                weights.append(math.exp(s))
                values.append(self.v[cell, h // 2])
            if weights:
                total = sum(weights) + (math.exp(sinks[h]) if sinks is not None else 0)
                out[t, h] = np.array(weights) @ np.array(values, np.float64) / total
        return out.reshape(3, 24)


@pytest.mark.parametrize(("max_bias", "softcap", "sinks"), [
    (0.0, 0.0, None), (8.0, 0.0, None), (0.0, 2.0, None), (0.0, 0.0, [0.5, -1.0, 3.0, 0.0]),
])  # fmt: skip
def test_attention(max_bias: float, softcap: float, sinks: list[float] | None) -> None:
    a, net = Attention(), Net()
    extra = [] if sinks is None else [net.put(sinks)]
    p = dict(scale=0.35, max_bias=max_bias, softcap=softcap)
    got = net.run(make("flash_attn", *a.tensors(net), *extra, **p))[0, 0]
    np.testing.assert_allclose(got, a.want(0.35, max_bias, softcap, sinks), rtol=1e-5, atol=1e-6)
    assert not got[2].any()  # nothing was visible

    cut = Net()
    extra = [] if sinks is None else [cut.put(sinks)]
    parts = make("flash_attn_part", *a.tensors(cut), **p)
    merged = cut.run(make("flash_attn_merge", parts, *extra))[0, 0]
    np.testing.assert_allclose(merged, got, rtol=1e-5, atol=1e-6)


def test_attention_parts_hold_row_maximum_and_sum() -> None:
    a, net = Attention(), Net()
    out = net.run(make("flash_attn_part", *a.tensors(net), scale=1.0, max_bias=0.0, softcap=0.0))
    assert out.shape == (3, 4, 4, 8)
    cells = [c for c in a.idx[0, 64:100] if c >= 0]
    s = a.k[cells, 1].astype(np.float64) @ a.q[0, 2]
    np.testing.assert_allclose(out[0, 2, 1, 6], s.max(), rtol=1e-6)
    np.testing.assert_allclose(out[0, 2, 1, 7], np.exp(s - s.max()).sum(), rtol=1e-6)
    assert out[0, 2, 2, 6] == -np.inf and out[0, 2, 2, 7] == 0


def test_slopes_of_a_head_count_that_is_no_power_of_two() -> None:
    assert slopes(6, 8.0).tolist() == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]


def test_float32_is_near_float64() -> None:
    w, x = rand(40, 64), rand(5, 64, seed=2)
    got = []
    for dtype in (np.float32, np.float64):
        net = Net(dtype)
        got.append(net.run(make("rms_norm", make("mul_mat", net.put(w), net.put(x)), eps=1e-6)))
    np.testing.assert_allclose(got[0], got[1], rtol=2e-5, atol=1e-6)


def test_bf16_rounds_to_the_nearest_even() -> None:
    bf16 = BY_NAME["bf16"]
    x = np.array([1.0, 1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8 + 2**-12), np.inf, np.nan], np.float32)
    got = decode(encode(x, bf16), bf16, np.float64)
    want = [1.0, 1.0, 1 + 2**-6, -(1 + 2**-7), np.inf]
    assert got[:5].tolist() == want and np.isnan(got[5])
