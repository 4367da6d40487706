"""What the ops of mixtures of experts, and of rows beside them, mean in numpy: by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ref_net import Net, one, rand

from llamapy.base.errors import KernelError
from llamapy.base.types import BY_NAME
from llamapy.graph.ops import make, view


def test_norm_by_hand() -> None:
    """3, 5: mean 4, variance 1; with eps 3 the root is 2."""
    x = [[3.0, 5.0]]
    assert one("norm", x, eps=3.0).ravel().tolist() == [-0.5, 0.5]
    assert one("norm", x, [2.0, 4.0], eps=3.0).ravel().tolist() == [-1.0, 2.0]
    assert one("norm", x, [2.0, 4.0], [10.0, 20.0], eps=3.0).ravel().tolist() == [9.0, 22.0]


def test_rows_by_hand() -> None:
    assert one("l2_norm", [[3.0, 4.0]], eps=1e-6).ravel().tolist() == pytest.approx([0.6, 0.8])
    assert one("l2_norm", [[3.0, 4.0]], eps=10.0).ravel().tolist() == pytest.approx([0.3, 0.4])
    third = one("soft_max", [[math.log(2.0), 0.0], [1000.0, 1000.0]])[0, 0]
    np.testing.assert_allclose(third, [[2 / 3, 1 / 3], [0.5, 0.5]], rtol=1e-6)
    assert one("sum_rows", [[1.0, 2.0, 3.5], [0.0, -1.0, 1.0]])[0, 0].tolist() == [[6.5], [0.0]]
    assert one("clamp", [-9.0, 0.5, 9.0], min=-1.0, max=2.0).ravel().tolist() == [-1.0, 0.5, 2.0]


def test_two_tensors_are_joined_along_an_axis() -> None:
    a, b = rand(2, 3, 4), rand(2, 3, 4, seed=2)
    for axis in range(3):
        want = np.concatenate((a, b), axis=2 - axis)
        assert np.array_equal(one("concat", a, b, axis=axis)[0], want)
    with pytest.raises(ValueError):
        one("concat", a, rand(2, 3, 5), axis=1)


def test_the_clamped_gate_by_hand() -> None:
    got = one("swiglu_oai", [1.0, 9.0], [2.0, -9.0], alpha=1.5, limit=7.0).ravel()
    want = [3 / (1 + math.exp(-1.5)), -6 * 7 / (1 + math.exp(-10.5))]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_the_largest_are_chosen_in_groups_too() -> None:
    scores = [[9, 0, 0, 6, 4, -9, 5, 5, 5, 1, 2, -1]]
    for k, n_group, n_used, want in (
        (3, 1, 1, [0, 3, 6]),
        (4, 4, 2, [3, 6, 7, 8]),
        (3, 4, 1, [3, 4, 5]),
    ):
        got = one("top_k_ids", scores, k=k, n_group=n_group, n_group_used=n_used)
        assert got[0, 0, 0].tolist() == want


def test_a_mixture_is_what_its_experts_say_weighed() -> None:
    """Two of five experts for each of four tokens, from scores to the sum."""
    w, x, scores = rand(5, 6, 8), rand(4, 1, 8, seed=2), rand(4, 5, seed=3)
    net = Net()
    p = net.put(scores)
    ids = make("top_k_ids", p, k=2, n_group=1, n_group_used=1)
    said = make("mul_mat_id", net.put(w), net.put(x), ids)
    got = net.run(make("weighted_sum", said, make("take_ids", p, ids)))[0, 0]
    for t in range(4):
        best = np.argsort(-scores[t])[:2]
        want = sum(scores[t, e] * (w[e].astype(np.float64) @ x[t, 0]) for e in best)
        np.testing.assert_allclose(got[t], want, rtol=1e-5, atol=1e-6)


def test_a_column_for_every_use_and_quantised_experts() -> None:
    w, x = rand(3, 6, 64), rand(2, 2, 64, seed=2)
    ids = [[2, 0], [2, 2]]
    net = Net()
    got = net.run(make("mul_mat_id", net.put(w, BY_NAME["q8_0"]), net.put(x), net.ids(ids)))[0]
    for t, u in np.ndindex(2, 2):
        want = w[ids[t][u]].astype(np.float64) @ x[t, u]
        assert np.abs(got[t, u] - want).max() < 0.1


def test_biases_of_experts() -> None:
    x, bias, ids = rand(3, 2, 4), rand(5, 4, seed=2), [[4, 0], [1, 1], [0, 3]]
    net = Net()
    got = net.run(make("add_id", net.put(x), net.put(bias), net.ids(ids)))[0]
    np.testing.assert_allclose(got, x + bias[np.array(ids)], rtol=1e-6)


def test_ids_outside_and_shapes_that_do_not_fit() -> None:
    net = Net()
    x, w, ids = net.put(rand(2, 1, 8)), net.put(rand(3, 5, 8)), net.ids([[0, 3], [1, 2]])
    with pytest.raises(KernelError):
        net.run(make("mul_mat_id", w, x, ids))
    for bad in (net.ids([[0, 1]]), net.ids([[0], [1], [2]])):
        with pytest.raises(ValueError):
            make("mul_mat_id", w, x, bad)
    with pytest.raises(ValueError):
        make("mul_mat_id", w, net.put(rand(2, 3, 8)), ids)
    with pytest.raises(ValueError):
        make("weighted_sum", net.put(rand(2, 3, 8)), net.put(rand(2, 2)))
    with pytest.raises(ValueError):
        make("add_id", net.put(rand(2, 2, 8)), net.put(rand(3, 7)), ids)


def test_a_sum_without_weights_and_of_a_view() -> None:
    x = rand(3, 4, 6)
    net = Net()
    whole = net.put(x)
    assert np.allclose(net.run(make("weighted_sum", whole))[0, 0], x.sum(1))
    net = Net()
    whole = net.put(x)
    two = view(whole, (6, 2, 3), whole.nb[1:3], whole.nb[1])
    assert np.allclose(net.run(make("weighted_sum", two))[0, 0], x[:, 1:3].sum(1))
