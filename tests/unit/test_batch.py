"""The ways to cut a batch: every token once, outputs in the caller's order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamapy.base.errors import ContextError, UsageError
from llamapy.kv.api import CUTS, Ubatch
from llamapy.runtime.batch import Batch, join, single, split, split_runs, split_simple


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


def test_arrays_with_strides_are_taken_as_they_read():
    rows = np.arange(12, dtype=np.int32).reshape(4, 3)
    b = Batch(rows[:, 1], rows[::-1, 0], ((0,),) * 4, np.tile([True, False], 4)[::2])
    assert b.tokens.tobytes() == np.array([1, 4, 7, 10], np.int32).tobytes()
    assert b.pos.tobytes() == np.array([9, 6, 3, 0], np.int32).tobytes()
    assert b.want.data.contiguous and b.n_outputs == 4


def test_simple_takes_tokens_in_order():
    b = batch_of([(0,)] * 5, [True, False, False, True, True])
    got = list(split_simple(b, 2))
    assert [u.tokens.tolist() for u in got] == [[100, 101], [102, 103], [104]]
    assert [u.outputs.tolist() for u in got] == [[0], [1], [0]]
    assert [u.order.tolist() for u in got] == [[0], [1], [2]]


def cut(batch: Batch, n_ubatch: int, how: str = "runs") -> list[tuple[list[int], list[int]]]:
    """Tokens, less 100, and places of each ubatch."""
    found = split_runs(batch, n_ubatch, how)
    return [((u.tokens - 100).tolist(), u.order.tolist()) for u in found]


def test_runs_bring_the_tokens_of_a_sequence_together():
    b = batch_of([(0,), (1,), (0,), (1,), (1,)], [True] * 5)
    assert cut(b, 9) == [([0, 2, 1, 3, 4], [0, 2, 1, 3, 4])]
    assert cut(b, 3) == [([0, 2, 1], [0, 2, 1]), ([3, 4], [3, 4])]


def test_what_follows_a_shared_prefix_waits_for_it():
    b = batch_of([(0, 1), (0, 1), (0,), (2,), (1,), (1,)], [False] * 5 + [True])
    assert cut(b, 9) == [([0, 1, 3], []), ([2, 4, 5], [0])]
    assert cut(b, 2) == [([0, 1], []), ([2, 3], []), ([4, 5], [0])]


def test_a_run_is_of_a_set_of_sequences():
    (u,) = split_runs(batch_of([(1, 0), (0, 1), (0, 1, 1)], [False] * 3), 9, "runs")
    assert u.seqs == ((0, 1),) * 3


def test_whole_sequences_are_never_cut():
    b = batch_of([(0,), (0,), (1,), (1,), (1,), (2,)], [False] * 6)
    assert cut(b, 4, "whole") == [([0, 1, 5], []), ([2, 3, 4], [])]
    with pytest.raises(ContextError, match="sequence 1 has 3 tokens.*at most 2.*-ub"):
        split_runs(b, 2, "whole")


def shared(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Sequences that start as one, then part in any order, in a random interleaving."""
    groups = [tuple(range(draw(st.integers(1, 6))))]
    rows: list[tuple[int, ...]] = []
    for _ in range(draw(st.integers(1, 40))):
        i = draw(st.integers(0, len(groups) - 1))
        seqs = groups[i]
        if len(seqs) > 1 and draw(st.booleans()):
            n = draw(st.integers(1, len(seqs) - 1))
            groups[i : i + 1] = [seqs[:n], seqs[n:]]
        else:
            rows.append(tuple(draw(st.permutations(seqs))))
    return rows or [groups[0]]


@given(st.data(), st.integers(1, 9), st.sampled_from(CUTS))
def test_every_token_goes_once_and_every_output_comes_back(data, n_ubatch, how):
    rows = shared(data.draw)
    if how == "whole":
        n_ubatch = len(rows)
    want = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    b = batch_of(rows, want)
    seen: list[int] = []
    places: dict[int, int] = {}
    for u in split(b, n_ubatch, how):
        assert 1 <= u.n_tokens <= n_ubatch
        assert [set(s) for s in u.seqs] == [set(rows[t - 100]) for t in u.tokens]
        assert u.pos.tolist() == (u.tokens - 100).tolist()
        seen += u.tokens.tolist()
        places |= {int(p): int(u.tokens[o]) for o, p in zip(u.outputs, u.order, strict=True)}
        assert u.outputs.tolist() == sorted(u.outputs)
    assert sorted(seen) == b.tokens.tolist()
    wanted = b.tokens[b.want].tolist()
    assert [places[i] for i in range(len(wanted))] == wanted
    for s in range(6):  # each sequence's tokens stay in order
        of = [t for t in seen if s in rows[t - 100]]
        assert of == sorted(of)


@given(st.data(), st.integers(1, 9))
def test_no_run_of_a_ubatch_depends_on_another(data, n_ubatch):
    rows = shared(data.draw)
    for u in split_runs(batch_of(rows, [False] * len(rows)), n_ubatch, "runs"):
        runs = [s for i, s in enumerate(u.seqs) if i == 0 or u.seqs[i - 1] != s]
        members = [s for run in runs for s in run]
        assert len(members) == len(set(members))


def test_join_keeps_each_parts_rows():
    b = join([single([1, 2], 0, 0, "last"), single([3], 7, 1, "last")])
    assert b.tokens.tolist() == [1, 2, 3]
    assert b.pos.tolist() == [0, 1, 7]
    assert b.seqs == ((0,), (0,), (1,))
    assert b.want.tolist() == [False, True, True]


def test_temperatures_grow_with_the_logarithm_of_whole_spans() -> None:
    pos = np.array([0, 8190, 8191, 16383, 99999], np.int32)
    u = Ubatch(pos, pos, ((0,),) * 5, pos[:0], pos[:0])
    want = [1.0, 1.0, 1 + 0.1 * np.log(2), 1 + 0.1 * np.log(3), 1 + 0.1 * np.log(13)]
    assert u.temperatures(0.1, 8192, 1.0) == pytest.approx(want, rel=1e-6)
