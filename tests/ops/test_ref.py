"""The numpy meaning of every op, against values worked out by hand and formulas written anew."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ref_net import Net, one, rand

from llamapy.base.errors import KernelError
from llamapy.base.types import BY_NAME, X8
from llamapy.devices.ref import MEANING
from llamapy.devices.ref.memory import decode, encode, x8_planes, x8_rows
from llamapy.graph.ops import GLU, OPS, make, permute, reshape, transpose, view


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
