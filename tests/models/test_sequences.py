"""Several sequences in one memory: whatever was done to it, a sequence is its list of tokens."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import CORE

from llamapy.base.errors import ContextError, UsageError
from llamapy.graph.compiled import Compiled
from llamapy.runtime.batch import Batch

N_SEQ = 3
N_CTX = 512
MOST = 150  # tokens of one sequence, so that three fit
PARAMS = {"n_ctx": N_CTX, "type_k": "f32", "type_v": "f32", "n_threads": 1}
WINDOW = ["gemma3-dense"]


@pytest.fixture(scope="module")
def alone(open_model):
    """Logits of all tokens of a list, from a context that never saw anything else."""
    open_contexts = {}

    @functools.lru_cache(maxsize=4096)
    def logits(name: str, tokens: tuple[int, ...]) -> np.ndarray:
        if name not in open_contexts:
            open_contexts[name] = open_model(name).context(**PARAMS)
        open_contexts[name].clear()
        return open_contexts[name].decode(tokens, logits="all")

    yield logits
    for ctx in open_contexts.values():
        ctx.close()


class Mirror:
    """A context, and beside it what each of its sequences should be."""

    def __init__(self, ctx, name, alone) -> None:
        self.ctx, self.name, self.alone = ctx, name, alone
        self.lists: list[list[int]] = [[] for _ in range(N_SEQ)]

    def decode(self, rows: list[tuple[tuple[int, ...], int, bool]]) -> None:
        """`rows`: (sequences, token, whether its logits are wanted)"""
        pos, want = [], []
        for seqs, token, wanted in rows:
            pos.append(len(self.lists[seqs[0]]))
            for s in seqs:
                self.lists[s].append(token)
            if wanted:
                want.append((seqs[0], pos[-1]))
        batch = Batch(
            np.array([t for _, t, _ in rows], np.int32),
            np.array(pos, np.int32),
            tuple(s for s, _, _ in rows),
            np.array([w for _, _, w in rows], np.bool_),
        )
        got = self.ctx.decode_batch(batch)
        assert got.shape == (len(want), 128)
        for row, (s, p) in zip(got, want, strict=True):
            assert np.array_equal(row, self.alone(self.name, tuple(self.lists[s]))[p]), (s, p)

    def remove(self, s: int, p0: int, p1: int) -> None:
        if self.ctx.seq_rm(s, p0, p1):
            end = len(self.lists[s]) if p1 < 0 else p1
            del self.lists[s][p0:end]
        else:
            assert self.name in WINDOW

    def copy(self, src: int, dst: int, p1: int) -> None:
        if src == dst:
            return
        assert self.ctx.seq_rm(dst, 0)
        self.lists[dst] = []
        try:
            self.ctx.seq_cp(src, dst, 0, p1)
        except UsageError:
            assert self.name in WINDOW
            return
        self.lists[dst] = self.lists[src][: p1 if p1 >= 0 else None]

    def keep(self, s: int) -> None:
        self.ctx.seq_keep(s)
        self.lists = [x if i == s else [] for i, x in enumerate(self.lists)]

    def clear(self) -> None:
        self.ctx.clear()
        self.lists = [[] for _ in range(N_SEQ)]

    def check(self) -> None:
        assert [self.ctx.n_past(s) for s in range(N_SEQ)] == [len(x) for x in self.lists]


def rows(draw, mirror: Mirror) -> list[tuple[tuple[int, ...], int, bool]]:
    """Tokens for some sequences, each sequence's in one run or interleaved with the others'."""
    counts = draw(st.lists(st.integers(0, 60), min_size=N_SEQ, max_size=N_SEQ))
    order = [s for s, n in enumerate(counts) for _ in range(min(n, MOST - len(mirror.lists[s])))]
    if draw(st.booleans()):
        order = draw(st.permutations(order)) if len(order) < 40 else order[::2] + order[1::2]
    step = draw(st.integers(1, 127))
    some = draw(st.integers(1, 9))
    return [((s,), (i * step + s) % 128, i % some == 0) for i, s in enumerate(order)]


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("name", CORE)
def test_any_operations_leave_each_sequence_its_own(open_model, alone, name, rounded):
    sizes = {"n_seq_max": N_SEQ, "n_ubatch": 91 if rounded else 16, "rounded": rounded}
    with open_model(name).context(**PARAMS, **sizes) as ctx:

        @settings(
            max_examples=25,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(st.data())
        def run(data):
            mirror = Mirror(ctx, name, alone)
            mirror.clear()
            seq = st.integers(0, N_SEQ - 1)
            for _ in range(data.draw(st.integers(1, 12))):
                what = data.draw(st.sampled_from(["decode"] * 4 + ["rm", "rm", "cp", "keep"]))
                s = data.draw(seq)
                cut = data.draw(st.integers(0, len(mirror.lists[s])))
                if what == "decode":
                    batch = rows(data.draw, mirror)
                    if batch:
                        mirror.decode(batch)
                elif what == "rm":
                    mirror.remove(s, cut, -1)
                elif what == "cp":
                    mirror.copy(s, data.draw(seq), data.draw(st.sampled_from([cut, -1])))
                else:
                    mirror.keep(s)
                mirror.check()

        run()


@pytest.mark.parametrize("name", CORE)
def test_a_token_of_several_sequences_is_each_ones_own(open_model, alone, name):
    with open_model(name).context(**PARAMS, n_seq_max=N_SEQ, n_ubatch=8) as ctx:
        mirror = Mirror(ctx, name, alone)
        both = [((1, 0), t, True) for t in range(20)]
        apart = [((s,), 30 + s + i, True) for i in range(20) for s in (0, 1)]
        mirror.decode(both + apart)
        mirror.check()


def test_sequences_that_differ_share_no_token(open_model):
    def batch(*rows):
        pos, seqs = zip(*rows, strict=True)
        n = len(rows)
        return Batch(np.full(n, 3, np.int32), np.array(pos, np.int32), seqs, np.ones(n, np.bool_))

    with open_model("llama-dense").context(**PARAMS, n_seq_max=N_SEQ) as ctx:
        for rows in (
            [(0, (0,)), (0, (1,)), (1, (0, 1))],  # the same ids, but each with cells of its own
            [(0, (0, 1)), (1, (0,)), (1, (1,)), (2, (1, 0))],
            [(0, (0, 1)), (0, (2,)), (1, (0, 1, 2))],
        ):
            with pytest.raises(UsageError, match="differ"):
                ctx.decode_batch(batch(*rows))
        ctx.decode([1, 2], seq_id=0)
        ctx.decode([5, 6], seq_id=1)
        with pytest.raises(UsageError, match="0 and 1 differ"):
            ctx.decode_batch(batch((2, (0, 1))))
        assert [ctx.n_past(s) for s in range(N_SEQ)] == [2, 2, 0]


def test_sequences_and_positions_that_are_none_are_refused(open_model):
    with open_model("llama-dense").context(**PARAMS, n_seq_max=2) as ctx:
        ctx.decode([1, 2, 3])
        for bad in (
            lambda: ctx.seq_rm(-1, 0),
            lambda: ctx.seq_rm(2, 0),
            lambda: ctx.seq_rm(0, -1),
            lambda: ctx.seq_cp(0, -1),
            lambda: ctx.seq_cp(2, 0),
            lambda: ctx.seq_keep(-1),
            lambda: ctx.n_past(-1),
            lambda: ctx.decode([1], seq_id=-1),
        ):
            with pytest.raises(UsageError, match="sequence|position"):
                bad()
        assert ctx.n_past() == 3


@pytest.mark.parametrize("name", CORE)
def test_a_run_that_broke_off_leaves_no_trace(open_model, alone, name, monkeypatch):
    tokens = [i * 7 % 128 for i in range(300)]
    with open_model(name).context(**PARAMS, n_ubatch=16) as ctx:
        ctx.decode(tokens[:272], logits="none")
        whole = Compiled.run

        def broken(self):
            whole(self)
            raise KeyboardInterrupt

        monkeypatch.setattr(Compiled, "run", broken)
        for junk in ([9] * 16, [5], [1] * 7):
            with pytest.raises(KeyboardInterrupt):
                ctx.decode(junk)
        monkeypatch.undo()
        assert ctx.n_past() == 272
        got = ctx.decode(tokens[272:], logits="all")
        assert np.array_equal(got, alone(name, tuple(tokens))[272:])


def test_many_outputs_are_reserved_once(open_model):
    with open_model("llama-dense").context(**PARAMS, n_ubatch=16) as ctx:
        ctx.decode([1] * 64, logits="all")
        assert (ctx.counters.built, ctx.counters.reused) == (1, 3)
        ctx.decode([1] * 64, logits="all")
        assert (ctx.counters.built, ctx.counters.reused) == (1, 7)


def test_rounded_graphs_come_again(open_model):
    with open_model("llama-dense").context(**PARAMS, n_seq_max=3, rounded=True) as ctx:
        for n in (200, 193, 199, 67, 90, 1, 1, 5, 6, 1):
            ctx.clear()
            ctx.decode([1] * n)
        assert (ctx.counters.built, ctx.counters.reused) == (4, 6)
    with open_model("llama-dense").context(**PARAMS) as ctx:
        for n in (9, 1, 9, 1, 8, 1):
            ctx.clear()
            ctx.decode([1] * n)
        assert (ctx.counters.built, ctx.counters.reused) == (3, 3)
        sizes: list[int] = []
        for n in range(10, 30):
            ctx.decode([1] * n, logits="none")
            sizes.append(ctx.graph_bytes)
        assert ctx.counters.built == 23 and len(set(sizes[4:])) == 1


@pytest.mark.parametrize(("n", "n_want"), [(8, 7), (7, 6), (7, 7), (8, 5), (16, 15)])
def test_a_graph_for_more_rows_than_are_wanted(open_model, alone, n, n_want):
    sizes = {"n_seq_max": 16, "n_ubatch": n + n % 2, "rounded": True}
    with open_model("llama-dense").context(**PARAMS, **sizes) as ctx:
        mirror = Mirror(ctx, "llama-dense", alone)
        mirror.lists = [[] for _ in range(16)]
        mirror.decode([((s,), s, False) for s in range(n)])
        mirror.decode([((s,), s * 3, s >= n - n_want) for s in range(n)])


def test_two_threads_with_a_context_each(open_model, alone):
    def work(name: str, tokens: list[int], found: list[np.ndarray]) -> None:
        with open_model(name).context(**{**PARAMS, "n_threads": 2}) as ctx:
            found += [ctx.decode(tokens[i : i + 3], logits="all") for i in range(0, 60, 3)]

    jobs = [(name, [(i * k) % 128 for i in range(60)], []) for k in (3, 5) for name in CORE]
    for name in CORE:
        open_model(name)
    threads = [threading.Thread(target=work, args=job) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for name, tokens, found in jobs:
        assert np.array_equal(np.concatenate(found), alone(name, tuple(tokens)))


def test_graphs_of_the_largest_steps_are_made_for_sequences_of_known_length(open_model) -> None:
    """And give the bits of others; a sequence may not become longer."""
    model = open_model("llama-dense")
    sizes = {"n_ctx": 2048, "n_seq_max": 5, "n_ubatch": 320, "n_threads": 1}
    ids = np.random.default_rng(3).integers(0, 100, (5, 65)).astype(np.int32)
    seqs = tuple((s,) for s in range(5))

    def step(ctx, first: int, n: int) -> np.ndarray:
        pos = np.tile(np.arange(first, first + n, dtype=np.int32), 5)
        want = np.tile(np.arange(n) == n - 1, 5)
        of = tuple(s for s in seqs for _ in range(n))
        part = ids[:, first : first + n].flatten()
        return ctx.decode_batch(Batch(part, pos, of, want))

    with (
        model.context(**sizes, n_longest=65, rounded=True) as ctx,
        model.context(**sizes) as other,
    ):
        assert ctx.counters.built == 2
        assert ctx.buffer_bytes()["CPU"] < other.buffer_bytes()["CPU"]
        for first, n in ((0, 64), (64, 1)):
            assert np.array_equal(step(ctx, first, n), step(other, first, n))
        assert ctx.counters.built <= 3 and ctx.counters.reused >= 1
        with pytest.raises(ContextError, match="position 66 of a context of 65"):
            ctx.decode([1], seq_id=2)
