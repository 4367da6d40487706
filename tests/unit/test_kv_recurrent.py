"""Recurrent and hybrid memories: whatever was done, a sequence's state is that of its tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llamapy.base.errors import ContextError, UsageError
from llamapy.devices.cpu.buffers import HOST, HostBuffer
from llamapy.kv.api import CacheShape, Memory, Ubatch
from llamapy.kv.hybrid import HybridCache
from llamapy.kv.recurrent import RecurrentCache
from llamapy.runtime.batch import Batch, split
from llamapy.runtime.memory import open_memory

N_SEQ, N_UBATCH = 4, 7
STATES = [{"sum": (3,), "last": (2, 2)}, {}, {"sum": (1, 2, 3)}]


class Host:
    default_buft = HOST

    def alloc(self, buft, n_bytes, usage):
        return HostBuffer(buft, n_bytes, usage)


def memory(heads=(0, 0, 0), states=STATES, n_seq_max=N_SEQ, **shape) -> Memory:
    return open_memory(
        CacheShape(heads, (32,) * 3, (32,) * 3, **shape), states, lambda il: Host(),
        n_ctx=4096, n_seq_max=n_seq_max, n_ubatch=N_UBATCH, type_k="f16", type_v="f16",
    )  # fmt: skip


KINDS = {"recurrent": (0, 0, 0), "hybrid": (0, 2, 1)}


@pytest.fixture(params=KINDS)
def kv(request) -> Memory:
    return memory(KINDS[request.param])


def cells_of(kv: Memory, il: int, name: str) -> np.ndarray:
    """f32 [n_cells, elements], the memory itself."""
    t = kv.state(il)[name]
    raw = t.buffer.read(t.offset_bytes, t.n_bytes)
    return np.frombuffer(raw, np.float32).reshape(t.ne[len(STATES[il][name])], -1)


def after(state: np.ndarray, token: int) -> np.ndarray:
    """No two lists of tokens give the same."""
    return (state * np.float32(0.37) + np.float32(token + 1)).astype(np.float32)


def compute(kv: Memory, u: Ubatch, broken: bool = False) -> None:
    """What the ops of a graph do with runs."""
    step = kv.begin(u)
    step.apply()
    assert step.sizes[0] == len(step.runs) <= N_SEQ
    for row, n, read, write in step.runs.tolist():
        assert read != write
        for il, states in enumerate(STATES):
            for name in states:
                cells = cells_of(kv, il, name)
                state = cells[read].copy() if read >= 0 else np.zeros_like(cells[0])
                for token in u.tokens[row : row + n].tolist():
                    state = after(state, token)
                cells[write] = state
    if broken:
        step.revert()


def expected(tokens: list[int]) -> np.ndarray:
    state = np.zeros(1, np.float32)
    for token in tokens:
        state = after(state, token)
    return state


class Mirror:
    def __init__(self, kv: Memory) -> None:
        self.kv = kv
        self.lists: list[list[int]] = [[] for _ in range(N_SEQ)]

    def decode(self, rows: list[tuple[tuple[int, ...], int]], broken: bool = False) -> None:
        want = [list(x) for x in self.lists]
        pos = []
        for seqs, token in rows:
            pos.append(len(want[seqs[0]]))
            for s in seqs:
                want[s].append(token)
        n = len(rows)
        batch = Batch(
            np.array([t for _, t in rows], np.int32), np.array(pos, np.int32),
            tuple(s for s, _ in rows), np.zeros(n, np.bool_),
        )  # fmt: skip
        ubatches = list(split(batch, N_UBATCH, self.kv.cut))
        if broken:  # the first of them fails: nothing has happened
            compute(self.kv, ubatches[0], broken=True)
            return
        for u in ubatches:
            compute(self.kv, u)
        self.lists = want

    def check(self) -> None:
        kv = self.kv
        books = kv.recurrent if isinstance(kv, HybridCache) else kv
        for s, tokens in enumerate(self.lists):
            assert kv.pos_max(s) == len(tokens) - 1
            if tokens:
                for il, states in enumerate(STATES):
                    for name in states:
                        found = cells_of(kv, il, name)[books.cells[s]]
                        assert (found == expected(tokens)).all()
            assert {t for t in kv.twins(s) if self.lists[t] != tokens} == set()


def rows(draw: st.DrawFn, mirror: Mirror) -> list[tuple[tuple[int, ...], int]]:
    """Tokens of several sequences that are the same, then of single ones in any order."""
    s = draw(st.integers(0, N_SEQ - 1))
    same = tuple(sorted(mirror.kv.twins(s)))
    first = [(same, draw(st.integers(0, 99))) for _ in range(draw(st.integers(0, 9)))]
    counts = [draw(st.integers(0, 9)) for _ in range(N_SEQ)]
    order = draw(st.permutations([s for s, n in enumerate(counts) for _ in range(n)]))
    return first + [((s,), (7 * i + s) % 100) for i, s in enumerate(order)]


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_any_operations_leave_each_sequence_its_own_state(kv, data):
    kv.clear()
    mirror = Mirror(kv)
    seq = st.integers(0, N_SEQ - 1)
    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["decode", "decode", "break", "rm", "tail", "cp", "keep"]))
        s, d = data.draw(seq), data.draw(seq)
        n = len(mirror.lists[s])
        if what in ("decode", "break"):
            if batch := rows(data.draw, mirror):
                mirror.decode(batch, broken=what == "break")
        elif what == "rm":
            assert kv.seq_rm(s, 0, -1)
            mirror.lists[s] = []
        elif what == "tail":
            p0 = data.draw(st.integers(0, n + 3))
            assert kv.seq_rm(s, p0, -1) is (p0 == 0 or p0 >= n)
            if p0 == 0:
                mirror.lists[s] = []
        elif what == "cp" and s != d:
            assert kv.seq_rm(d, 0, -1)
            kv.seq_cp(s, d, 0, -1)
            mirror.lists[d] = list(mirror.lists[s])
        elif what == "keep":
            kv.seq_keep(s)
            mirror.lists = [x if i == s else [] for i, x in enumerate(mirror.lists)]
        mirror.check()


def test_a_state_is_zero_or_copied_and_never_written_twice(kv):
    mirror = Mirror(kv)
    mirror.decode([((0, 1), 5)])
    assert kv.twins(0) == {0, 1}
    assert kv.twins(2) == {2, 3}
    mirror.decode([((1,), 6)])
    assert kv.twins(0) == {0}
    mirror.check()


@pytest.mark.parametrize("p0, p1", [(0, 2), (1, -1), (1, 2)])
def test_a_part_is_neither_removed_nor_copied(kv, p0, p1):
    mirror = Mirror(kv)
    mirror.decode([((0,), 5), ((0,), 6), ((0,), 7)])
    assert not kv.seq_rm(0, p0, p1)
    with pytest.raises(UsageError, match="a part of sequence 0"):
        kv.seq_cp(0, 1, p0, p1)
    mirror.check()


def test_nothing_to_remove_or_copy_is_fine(kv):
    mirror = Mirror(kv)
    mirror.decode([((0,), 5)])
    for p0, p1 in ((1, -1), (0, 0), (9, 12)):
        assert kv.seq_rm(0, p0, p1)
        kv.seq_cp(0, 1, p0, p1)
    mirror.check()


def test_a_copy_replaces_nothing(kv):
    mirror = Mirror(kv)
    mirror.decode([((0,), 5), ((1,), 6)])
    with pytest.raises(UsageError, match="sequence 1 has a"):
        kv.seq_cp(0, 1, 0, -1)
    mirror.check()


def test_tokens_of_a_sequence_that_are_apart_are_refused(kv):
    u = Ubatch(*(np.arange(3, dtype=np.int32),) * 2, ((0,), (1,), (0,)), *(np.zeros(0, int),) * 2)
    with pytest.raises(UsageError, match="follow each other"):
        kv.begin(u)
    assert kv.pos_max(0) == -1


def test_a_hybrid_that_has_no_room_for_attention_changes_nothing():
    kv = memory(KINDS["hybrid"])
    mirror = Mirror(kv)
    mirror.decode([((0,), i % 100) for i in range(4090)])
    with pytest.raises(ContextError, match="--ctx-size"):
        mirror.decode([((1,), 1)] * 7)
    assert kv.pos_max(1) == -1
    mirror.lists[1] = []
    mirror.check()


def test_layers_have_what_they_are_said_to_have():
    kv = memory(KINDS["hybrid"])
    assert kv.state(0)["last"].ne == (2, 2, 2 * N_SEQ, 1)
    assert kv.state(2)["sum"].ne == (1, 2, 3, 2 * N_SEQ)
    assert not kv.state(1)
    assert kv.layer(1).k.ne == (32, 4096, 2, 1)
    with pytest.raises(LookupError):
        kv.layer(0)
    tensors = [kv.layer(il)[i] for il in (1, 2) for i in (0, 1)]
    assert kv.n_bytes == sum(-(-t.n_bytes // 64) * 64 for t in tensors) + 128 + 128 + 192
    assert isinstance(memory(), RecurrentCache)


def test_a_model_without_any_memory_counts_positions():
    kv = memory(states=[{}, {}, {}])
    assert kv.n_bytes == 0
    for u in (Ubatch(*(np.array([p], np.int32),) * 2, ((0,),), *(np.zeros(0, int),) * 2)
              for p in range(3)):  # fmt: skip
        kv.begin(u).apply()
    assert kv.pos_max(0) == 2


def test_one_sequence_takes_turns_between_two_cells():
    kv = memory(n_seq_max=1)
    assert kv.state(0)["sum"].ne == (3, 2, 1, 1)
    seen = []
    for p in range(4):
        u = Ubatch(*(np.array([p], np.int32),) * 2, ((0,),), *(np.zeros(0, int),) * 2)
        step = kv.begin(u)
        step.apply()
        seen += step.runs.tolist()
    assert seen == [[0, 1, -1, 0], [0, 1, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]]
