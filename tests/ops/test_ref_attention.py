"""The numpy meaning of rope and attention, pair by pair and place by place."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ref_net import Array, Net, rand

from llamapy.base.types import X8
from llamapy.devices.ref.attention import slopes
from llamapy.devices.ref.memory import decode, x8_rows
from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor

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

    def want(
        self, scale: float, max_bias: float, softcap: float, sinks: object = None,
        bias: object = None,
    ) -> Array:  # fmt: skip
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
                s += 0 if bias is None else float(bias[max(min(j - own, 20), -20) + 20, h])
                weights.append(math.exp(s))
                values.append(self.v[cell, h // 2])
            if weights:
                total = sum(weights) + (math.exp(sinks[h]) if sinks is not None else 0)
                out[t, h] = np.array(weights) @ np.array(values, np.float64) / total
        return out.reshape(3, 24)


@pytest.mark.parametrize(("max_bias", "softcap", "sinks", "biased"), [
    (0.0, 0.0, None, False), (8.0, 0.0, None, False), (0.0, 2.0, None, False),
    (0.0, 0.0, [0.5, -1.0, 3.0, 0.0], False), (0.0, 0.0, None, True),
    (8.0, 2.0, [0.5, -1.0, 3.0, 0.0], True),
])  # fmt: skip
def test_attention(
    max_bias: float, softcap: float, sinks: list[float] | None, biased: bool
) -> None:
    a, net = Attention(), Net()
    bias = np.random.default_rng(6).standard_normal((41, 4)).astype(np.float32) if biased else None
    extra = [net.put(x) for x in (bias, sinks) if x is not None]
    p = dict(scale=0.35, max_bias=max_bias, softcap=softcap)
    got = net.run(make("flash_attn", *a.tensors(net), *extra, **p))[0, 0]
    np.testing.assert_allclose(
        got, a.want(0.35, max_bias, softcap, sinks, bias), rtol=1e-5, atol=1e-6
    )
    assert not got[2].any()  # nothing was visible

    cut = Net()
    extra = [] if sinks is None else [cut.put(sinks)]
    scored = [] if bias is None else [cut.put(bias)]
    parts = make("flash_attn_part", *a.tensors(cut), *scored, **p)
    merged = cut.run(make("flash_attn_merge", parts, *extra))[0, 0]
    np.testing.assert_allclose(merged, got, rtol=1e-5, atol=1e-6)


def test_quantised_attention_is_attention_quantised() -> None:
    a, net = Attention(), Net()
    a.v = rand(200, 2, 32)
    p = dict(scale=0.35, max_bias=0.0, softcap=0.0)
    srcs = a.tensors(net)
    want = decode(x8_rows(net.run(make("flash_attn", *srcs, **p))), X8, np.float64)
    for twin in (
        make("flash_attn_quant", *srcs, **p),
        make("flash_attn_merge_quant", make("flash_attn_part", *srcs, **p)),
    ):
        got = net.run(twin)
        assert twin.type is X8 and got.shape == (1, 1, 3, 128)
        np.testing.assert_allclose(got, want, atol=2e-2)
        assert np.abs(want).max() > 0.2


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
