"""Mixtures of experts: products are mul_mat's own, bit for bit, whoever else is in the batch; what
chooses, weighs and sums is checked against numpy."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from cases_experts import columns, routes
from cases_rows import gaps, plain
from harness import Case, Operand, operand, packed, params, result, row_of, run, values
from quant_data import random_weights, random_x8

from llamapy.base.errors import KernelError
from llamapy.devices.ref.experts import top_k_ids as chosen
from llamapy.ffi.lib import KernelRow, load
from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor

RNG = np.random.default_rng(11)
ROWS = [k for k in load().kernels if k.family == "mul_mat_id" and not k.need & ~load().features]
K, M = 256, 40


def activations(rng: np.random.Generator, row: KernelRow, n: int) -> np.ndarray:
    """Stored rows."""
    if row.xtype == "x8":
        return random_x8(rng, n, K).packed
    return rng.standard_normal((n, K)).astype(np.float32)


def stored(row: KernelRow, x: np.ndarray) -> Operand:
    return packed(x, row.xtype, (K, len(x)))


def products(row: KernelRow, w: np.ndarray, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """w [n_expert, M, bytes], x [n_tokens, n_used or 1, bytes]: float32 [n_tokens, n_used, M]."""
    n_tokens, n_used = ids.shape
    acts = columns(stored(row, x.reshape(-1, x.shape[-1])), x.shape[1], n_tokens)
    srcs = [packed(w, row.wtype, (K, M, len(w))), acts, operand(ids)]
    ne = (M, n_used, n_tokens)
    return values(run(row.index, Case(srcs, result("f32", ne))), np.float32, ne)


def one_by_one(row: KernelRow, w: np.ndarray, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The same by mul_mat, a column at a time."""
    plain_row = row_of("mul_mat", row.wtype, row.xtype, row.isa)
    out = np.empty((*ids.shape, M), np.float32)
    for t, u in np.ndindex(*ids.shape):
        column = stored(row, x[t, u % x.shape[1]][None])
        case = Case([packed(w[ids[t, u]], row.wtype, (K, M)), column], result("f32", (M, 1)))
        out[t, u] = values(run(plain_row.index, case), np.float32, (M, 1))[0]
    return out


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("n_tokens", [1, 9])
def test_products_are_those_of_single_columns(row: KernelRow, n_tokens: int) -> None:
    """Few pairs, and so many that the columns of one expert go through tiles together."""
    rng = np.random.default_rng(zlib.crc32(row.wtype.encode()))
    w = random_weights(rng, row.wtype, 4 * M, K).reshape(4, M, -1)
    ids = routes(rng, 4, 2, n_tokens)
    for each in (1, 2):
        x = activations(rng, row, each * n_tokens).reshape(n_tokens, each, -1)
        want = one_by_one(row, w, x, ids)
        assert products(row, w, x, ids).tobytes() == want.tobytes()


@pytest.mark.parametrize("wtype", ["q4_0", "q4_K", "f32", "bf16"])
def test_batch_mates_do_not_change_bits(wtype: str) -> None:
    xtype = "x8" if wtype[0] == "q" else "f32"
    rows = [k for k in ROWS if (k.wtype, k.xtype) == (wtype, xtype)]
    w = random_weights(RNG, wtype, 5 * M, K).reshape(5, M, -1)
    x = activations(RNG, rows[0], 40).reshape(40, 1, -1)
    ids = routes(RNG, 5, 3, 40)
    for row in rows:
        whole = products(row, w, x, ids)
        for part in (slice(0, 1), slice(3, 7), slice(8, 40)):
            assert products(row, w, x[part], ids[part]).tobytes() == whole[part].tobytes(), row


@pytest.mark.parametrize("bad", [-1, 4, 2**31 - 1])
@pytest.mark.parametrize("n_tokens", [1, 30])
def test_an_expert_that_is_none_is_refused(bad: int, n_tokens: int) -> None:
    row = row_of("mul_mat_id", "q8_0", "x8")
    w = random_weights(RNG, "q8_0", 4 * M, K).reshape(4, M, -1)
    x = activations(RNG, row, n_tokens).reshape(n_tokens, 1, -1)
    ids = routes(RNG, 4, 2, n_tokens)
    ids[-1, 1] = bad
    with pytest.raises(KernelError, match="row index"):
        products(row, w, x, ids)


def test_shapes_that_do_not_fit_are_refused() -> None:
    row = row_of("mul_mat_id", "f32", "f32")
    w, x = operand(plain(RNG, 3, 5, 8)), operand(plain(RNG, 2, 3, 8))
    for ids in (np.zeros((2, 2), np.int32), np.zeros((3, 3), np.int32)):
        case = Case([w, x, operand(ids)], result("f32", (5, *ids.shape[::-1])))
        with pytest.raises(KernelError):
            run(row.index, case)


def choose(scores: np.ndarray, k: int, n_group: int = 1, n_used: int = 1) -> np.ndarray:
    ip, fp = params("top_k_ids", k=k, n_group=n_group, n_group_used=n_used)
    ne = (k, len(scores))
    case = Case([operand(scores)], result("i32", ne), ip, fp)
    return values(run(row_of("top_k_ids", "i32").index, case), np.int32, ne)


def test_the_largest_are_chosen_in_order_and_ties_go_to_the_first() -> None:
    scores = np.array([[1, 3, 2, 3, -1], [-0.0, 0.0, 0.0, -5, -0.0]], np.float32)
    assert choose(scores, 4).tolist() == [[1, 3, 2, 0], [0, 1, 2, 4]]
    edges = np.array([[np.nan, -np.inf, 1e-45, -1e-45, np.inf, np.nan]], np.float32)
    assert choose(edges, 6).tolist() == [[4, 2, 3, 1, 0, 5]]


def test_groups_are_weighed_by_their_two_best() -> None:
    """Groups of three: sums 9, 10, 10 and 3. One of the second and third goes first."""
    scores = np.array([[9, 0, 0, 6, 4, -9, 5, 5, 5, 1, 2, -1]], np.float32)
    assert choose(scores, 3, 4, 1).tolist() == [[3, 4, 5]]
    assert choose(scores, 4, 4, 2).tolist() == [[3, 6, 7, 8]]
    assert choose(scores, 3, 4, 3).tolist() == [[0, 3, 6]]


@pytest.mark.parametrize(("n_expert", "k", "n_group", "n_used"), [(64, 6, 1, 1), (256, 8, 8, 4)])
def test_choices_are_those_of_numpy(n_expert: int, k: int, n_group: int, n_used: int) -> None:
    scores = gaps(RNG, 33, n_expert)
    source = Tensor(operand(scores).type, (n_expert, 33, 1, 1))
    node = make("top_k_ids", source, k=k, n_group=n_group, n_group_used=n_used)
    want = chosen(node, scores[None, None].astype(np.float64))[0, 0]
    assert np.array_equal(choose(scores, k, n_group, n_used), want)


@pytest.mark.parametrize(
    ("k", "n_group", "n_used"), [(0, 1, 1), (9, 1, 1), (2, 3, 1), (3, 4, 1), (1, 4, 5), (1, 0, 0)]
)
def test_choices_that_cannot_be_made_are_refused(k: int, n_group: int, n_used: int) -> None:
    scores = operand(plain(RNG, 2, 8))
    with pytest.raises((ValueError, ZeroDivisionError)):
        make("top_k_ids", Tensor(scores.type, scores.ne), k=k, n_group=n_group, n_group_used=n_used)
    with pytest.raises(KernelError):
        choose(plain(RNG, 2, 8), k, n_group, n_used)


def test_values_of_the_chosen_are_taken() -> None:
    scores, ids = gaps(RNG, 7, 12), routes(RNG, 12, 5, 7)
    index = row_of("take_ids").index
    got = run(index, Case([operand(scores), operand(ids)], result("f32", (5, 7))))
    assert np.array_equal(values(got, np.float32, (5, 7)), np.take_along_axis(scores, ids, 1))
    ids[6, 4] = 12
    with pytest.raises(KernelError, match="row index"):
        run(index, Case([operand(scores), operand(ids)], result("f32", (5, 7))))


def test_a_bias_is_that_of_the_expert() -> None:
    x, bias, ids = gaps(RNG, 4, 2, 35), gaps(RNG, 6, 35), routes(RNG, 6, 2, 4)
    index = row_of("add_id").index
    srcs = [operand(x), operand(bias), operand(ids)]
    got = values(run(index, Case(srcs, result("f32", (35, 2, 4)))), np.float32, (35, 2, 4))
    assert np.array_equal(got, x + bias[ids])
    srcs[2] = operand(ids - 6)
    with pytest.raises(KernelError, match="row index"):
        run(index, Case(srcs, result("f32", (35, 2, 4))))


def test_experts_are_summed_in_order_with_rounded_products() -> None:
    x, w = gaps(RNG, 5, 6, 40), gaps(RNG, 5, 6)
    for srcs in ([x, w], [x]):
        terms = x * w[..., None] if len(srcs) == 2 else x
        want = terms[:, 0].copy()
        for u in range(1, 6):
            want += terms[:, u]
        case = Case([operand(s) for s in srcs], result("f32", (40, 5)))
        got = values(run(row_of("weighted_sum").index, case), np.float32, (40, 5))
        assert np.array_equal(got, want)
