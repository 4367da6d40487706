"""The three ways to cut a batch: every token once, outputs in the caller's order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamapy.base.errors import UsageError
from llamapy.runtime.batch import SPLIT, Batch, join, single, split_equal, split_seq, split_simple


def batch_of(seqs: list[tuple[int, ...]], want: list[bool]) -> Batch:
    n = len(seqs)
    ids = np.arange(100, 100 + n, dtype=np.int32)
    return Batch(ids, np.arange(n, dtype=np.int32), tuple(seqs), np.array(want, np.bool_))


def test_single_asks_for_the_last_row():
    b = single([5, 6, 7], 10, 2, "last")
    assert b.pos.tolist() == [10, 11, 12]
    assert b.seqs == ((2,), (2,), (2,))
    assert b.want.tolist() == [False, False, True]


@pytest.mark.parametrize("logits, n", [("all", 3), ("none", 0), ("last", 1)])
def test_single_counts_outputs(logits, n):
    assert single([1, 2, 3], 0, 0, logits).n_outputs == n


def test_single_refuses_an_unknown_choice():
    with pytest.raises(UsageError, match="'some'"):
        single([1], 0, 0, "some")


@pytest.mark.parametrize(
    "tokens",
    [[1.5], [2**31], [2**70], np.array([2**32 + 5]), [[1]], ["1"], [True], [None], 5],
    ids=str,
)
def test_single_takes_nothing_that_is_no_id(tokens):
    with pytest.raises(UsageError, match="tokens"):
        single(tokens, 0, 0, "last")


def test_a_batch_of_other_types_or_lengths_is_refused():
    good = (np.zeros(2, np.int32), np.arange(2, dtype=np.int32), ((0,), (0,)), np.ones(2, np.bool_))
    Batch(*good)
    for i, bad in [
        (0, np.zeros(2, np.int64)),
        (0, np.zeros(3, np.int32)),
        (1, np.arange(2)),
        (2, ((0,),)),
        (2, ((0,), ())),
        (3, np.ones(2, np.int32)),
        (3, np.ones((2, 1), np.bool_)),
    ]:
        with pytest.raises(UsageError):
            Batch(*good[:i], bad, *good[i + 1 :])


def test_simple_takes_tokens_in_order():
    b = batch_of([(0,)] * 5, [True, False, False, True, True])
    got = list(split_simple(b, 2))
    assert [u.tokens.tolist() for u in got] == [[100, 101], [102, 103], [104]]
    assert [u.outputs.tolist() for u in got] == [[0], [1], [0]]
    assert [u.order.tolist() for u in got] == [[0], [1], [2]]


def test_equal_takes_the_same_number_from_each_sequence():
    b = batch_of([(0,), (0,), (0,), (1,), (2,), (2,)], [True] * 6)
    got = [(u.tokens.tolist(), [s[0] for s in u.seqs]) for u in split_equal(b, 6)]
    assert got == [
        ([100, 103, 104], [0, 1, 2]),
        ([101, 105], [0, 2]),
        ([102], [0]),
    ]


def test_equal_keeps_within_the_ubatch():
    b = batch_of([(s,) for s in range(5) for _ in range(4)], [False] * 20)
    for u in split_equal(b, 3):
        assert u.n_tokens <= 3


def test_seq_takes_one_sequence_at_a_time():
    b = batch_of([(0,), (1,), (0,), (1,), (1,)], [True] * 5)
    got = [(u.tokens.tolist(), u.order.tolist()) for u in split_seq(b, 2)]
    assert got == [([100, 102], [0, 2]), ([101, 103], [1, 3]), ([104], [4])]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 9),
    st.sampled_from(sorted(SPLIT)),
)
def test_every_token_goes_once_and_every_output_comes_back(rows, n_ubatch, kind):
    b = batch_of([(s,) for s, _ in rows], [w for _, w in rows])
    seen: list[int] = []
    places: dict[int, int] = {}
    for u in SPLIT[kind](b, n_ubatch):
        assert 1 <= u.n_tokens <= n_ubatch
        seen += u.tokens.tolist()
        places |= {int(p): int(u.tokens[o]) for o, p in zip(u.outputs, u.order, strict=True)}
    assert sorted(seen) == b.tokens.tolist()
    wanted = b.tokens[b.want].tolist()
    assert [places[i] for i in range(len(wanted))] == wanted


def test_join_keeps_each_parts_rows():
    b = join([single([1, 2], 0, 0, "last"), single([3], 7, 1, "last")])
    assert b.tokens.tolist() == [1, 2, 3]
    assert b.pos.tolist() == [0, 1, 7]
    assert b.seqs == ((0,), (0,), (1,))
    assert b.want.tolist() == [False, True, True]
