"""What `Cells` remembers between steps says what a search through all cells would say."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from llamapy.kv.api import Ubatch
from llamapy.kv.cells import Cells


def _ubatch(pos: list[int], seqs: list[int]) -> Ubatch:
    at = np.array(pos, np.int32)
    none = np.empty(0, np.int32)
    return Ubatch(at, at, tuple((s,) for s in seqs), none, none)


def _step(cells: Cells, rng: np.random.Generator) -> None:
    """One ubatch of up to three sequences, checked against books that remember nothing."""
    lists = sorted(set(rng.integers(0, 3, 3).tolist()))
    seqs = [s for s in lists for _ in range(int(rng.integers(1, 4)))]
    pos, after = [], {s: cells.pos_max(s) for s in range(3)}
    for s in seqs:
        after[s] += 1
        pos.append(after[s])
    fresh = copy.deepcopy(cells)
    fresh._forget()
    next_pos = [fresh.pos_max(s) + 1 for s in range(3)]
    chosen, expected = cells.choose(len(pos), next_pos), fresh.choose(len(pos), next_pos)
    if expected is None:
        assert chosen is None
        cells.clear()
        return
    assert chosen is not None
    assert chosen.tolist() == expected.tolist()
    ubatch = _ubatch(pos, seqs)
    n_kv = cells.list_length(max(pos), len(pos))
    for books in (cells, fresh):
        books.take(chosen, ubatch)
    fresh._forget()
    got, want = (b.view(chosen, ubatch, lists, n_kv) for b in (cells, fresh))
    assert np.array_equal(got.idx, want.idx)
    assert np.array_equal(got.range, want.range)
    assert [cells.pos_max(s) for s in range(3)] == [fresh.pos_max(s) for s in range(3)]


@pytest.mark.parametrize("n_swa", [0, 70])
def test_remembered_books_are_searched_books(n_swa: int) -> None:
    rng = np.random.default_rng(n_swa)
    cells = Cells(512, 3, n_swa)
    for _ in range(400):
        _step(cells, rng)
        s = int(rng.integers(0, 3))
        match int(rng.integers(0, 40)):
            case 0:
                cells.rm(s, max(0, cells.pos_max(s) - 5), 1 << 30)
            case 1:
                cells.keep(s)
            case 2:
                cells.rm((s + 1) % 3, 0, 1 << 30)
                cells.cp(s, (s + 1) % 3, 0, 1 << 30)
