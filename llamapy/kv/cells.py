"""The books of one group of cells: position and sequences of each. Knows nothing of K and V."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from llamapy.kv.api import GroupView, Ints, Ubatch, counted

TILE = 64  # attention cuts positions into tiles of this size; a list starts on a tile
PAD = 256  # list lengths are rounded up to this, so one graph lasts this many decode steps

P = TypeVar("P", int, Ints)


def pad(n: int, to: int = PAD) -> int:
    return -(-n // to) * to


class Cells:
    """`pos[c]` is the position in cell c, -1 when free; `member[s, c]` whether sequence s holds it.
    `n_swa` > 0 makes this a window group (kinds and `causal`: see api.CacheShape): a cell no query
    will see again counts as free."""

    def __init__(
        self,
        n_cells: int,
        n_seq_max: int,
        n_swa: int = 0,
        *,
        window: str = "sliding",
        causal: bool = True,
    ) -> None:
        self.n_cells = n_cells
        self.n_swa = n_swa
        self.window = window
        self.causal = causal
        self.pos: Ints = np.full(n_cells, -1, np.int32)
        self.member: npt.NDArray[np.bool_] = np.zeros((n_seq_max, n_cells), np.bool_)
        self._forget()

    def _forget(self) -> None:
        """Drop what is remembered so that a step costs the same however many cells there are."""
        self._free_from = 0  # all cells before this one are taken
        self._last: dict[int, int] = {}  # pos_max by sequence
        self._rows: dict[int, tuple[int, Ints]] = {}  # by sequence: base of its list, and the list
        self._shown: tuple[list[int], list[int], int] = [], [], 0  # what `_table` holds
        self._table: Ints = np.empty((0, 0), np.int32)

    def held(self, seq: int) -> Ints:
        """The positions of a sequence, in the order of their cells."""
        held: Ints = self.pos[self.member[seq]]
        return held

    def pos_max(self, seq: int) -> int:
        last = self._last.get(seq)
        if last is None:
            last = self._last[seq] = int(self.held(seq).max(initial=-1))
        return last

    def twins(self, seq: int) -> set[int]:
        """The sequences that hold the same cells, itself included."""
        return set(np.flatnonzero((self.member == self.member[seq]).all(axis=1)).tolist())

    def choose(self, n: int, next_pos: Sequence[int]) -> Ints | None:
        """n cells: empty ones first, then those out of every window, the oldest first, so that a
        sequence can go back as far as possible. None when there are too few.
        `next_pos[s]`: the first position that sequence s will be asked about."""
        start = self._free_from
        if start + n <= self.n_cells and max(self.pos[start : start + n].tolist(), default=-1) < 0:
            return counted(start, n)
        cells = np.flatnonzero(self.pos < 0)
        if len(cells) < n:
            cells = np.sort(np.concatenate([cells, self._gone(next_pos)[: n - len(cells)]]))
        return cells[:n].astype(np.int32) if len(cells) >= n else None

    def n_free(self, next_pos: Sequence[int]) -> int:
        """The most cells that `choose` finds."""
        return int(np.count_nonzero(self.pos < 0)) + len(self._gone(next_pos))

    def _gone(self, next_pos: Sequence[int]) -> npt.NDArray[np.intp]:
        """Cells out of every window, the oldest first."""
        if not self.forgets:
            return np.empty(0, np.intp)
        first = self._first(np.array(next_pos, np.int32))
        seen = self.pos[None, :] >= first[:, None]  # [n_seq_max, n_cells]
        gone = np.flatnonzero((self.pos >= 0) & ~(self.member & seen).any(axis=0))
        return gone[np.argsort(self.pos[gone], kind="stable")]

    def in_order(self, seq: int) -> tuple[Ints, Ints]:
        """Cells of a sequence and their positions, which ascend."""
        held = np.flatnonzero(self.member[seq])
        cells: Ints = held[np.argsort(self.pos[held])].astype(np.int32)
        pos: Ints = self.pos[cells]
        return cells, pos

    def take(self, cells: Ints, ubatch: Ubatch) -> None:
        places = cells.tolist()
        near = places[-1] - places[0] == len(places) - 1
        at = slice(places[0], places[-1] + 1) if near else cells
        if max(self.pos[at].tolist()) >= 0:
            self._forget()
            self.member[:, at] = False
        self.pos[at] = ubatch.pos
        for cell, pos, seqs in zip(places, ubatch.pos.tolist(), ubatch.seqs, strict=True):
            for seq in seqs:
                self.member[seq, cell] = True
                self._add(seq, pos, cell)
        if near and places[0] == self._free_from:
            self._free_from = places[-1] + 1

    def _add(self, seq: int, pos: int, cell: int) -> None:
        if pos > self._last.get(seq, pos):
            self._last[seq] = pos
        base, row = self._rows.get(seq, (0, None))
        if row is not None and base <= pos < base + len(row):
            row[pos - base] = cell

    def drop(self, cells: Ints) -> None:
        """Free cells whose contents are lost."""
        self._forget()
        self.member[:, cells] = False
        self.pos[cells] = -1

    def rm(self, seq: int, p0: int, p1: int) -> None:
        self._forget()
        self.member[seq] &= (self.pos < p0) | (self.pos >= p1)
        self._release()

    def cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        self._forget()
        self.member[dst] |= self.member[src] & (self.pos >= p0) & (self.pos < p1)

    def keep(self, seq: int) -> None:
        self._forget()
        self.member[np.arange(len(self.member)) != seq] = False
        self._release()

    def clear(self) -> None:
        self._forget()
        self.pos[:] = -1
        self.member[:] = False

    def _release(self) -> None:
        self.pos[~self.member.any(axis=0)] = -1

    @property
    def forgets(self) -> bool:
        """Whether cells are taken again before their sequence has gone. Where queries see what
        comes after them, a sequence is computed in one go, and all of it is needed then."""
        return self.n_swa > 0 and self.causal

    def _first(self, pos: P) -> P:
        """Where the window of a query at `pos` starts, possibly before 0."""
        if self.window == "chunked":
            return pos // self.n_swa * self.n_swa
        return pos - (self.n_swa // 2 if self.window == "symmetric" else self.n_swa - 1)

    def first_visible(self, pos: int) -> int:
        """The first position a query at `pos` sees."""
        return max(0, self._first(pos)) if self.n_swa else 0

    def _end_visible(self, pos: int, last: int) -> int:
        """One past the last position a query at `pos` sees, in a sequence that ends at `last`."""
        if self.causal:
            return pos + 1
        if self.n_swa and self.window == "symmetric":
            last = min(last, pos + self.n_swa // 2)
        return last + 1

    def list_length(self, pos_max: int, n_tokens: int) -> int:
        """Places a list needs when its last query stands at `pos_max`. Grows with `pos_max`, and in
        a window group stops growing, so that a long run keeps one graph."""
        n = pos_max + 1
        if self.forgets:
            n = min(n, self.n_swa + n_tokens + TILE - 2)
        return pad(n)

    def view(self, cells: Ints, ubatch: Ubatch, lists: list[int], n_kv: int) -> GroupView:
        """Cell lists and visible ranges of a ubatch whose cells have been taken. Void once more
        cells are taken or given back."""
        row_of = {seq: i for i, seq in enumerate(lists)}
        at = [row_of[seqs[0]] for seqs in ubatch.seqs]  # each token's list
        places = ubatch.pos.tolist()
        if self.causal and not self.n_swa:  # what every token sees begins at 0 and ends with it
            bases = [0] * len(lists)
            ranges = [(row, 0, pos + 1, pos) for row, pos in zip(at, places, strict=True)]
        else:
            bases = self._bases(places, at, len(lists))
            ranges = self._ranges(places, at, lists, bases)
        return GroupView(cells, self._idx(lists, bases, n_kv), np.array(ranges, np.int32))

    def _ranges(
        self, places: list[int], at: list[int], lists: list[int], bases: list[int]
    ) -> list[tuple[int, int, int, int]]:
        last = [0] * len(lists) if self.causal else [self.pos_max(s) for s in lists]
        return [
            (row, self.first_visible(pos) - bases[row],
             self._end_visible(pos, last[row]) - bases[row], pos - bases[row])
            for row, pos in zip(at, places, strict=True)
        ]  # fmt: skip

    def whole(self, ubatch: Ubatch, lists: list[int], n_kv: int) -> GroupView:
        """For tokens that have no place here, and see all of their sequence."""
        row_of = {seq: i for i, seq in enumerate(lists)}
        idx = self._idx(lists, [0] * len(lists), n_kv)
        ends = [self.pos_max(seq) + 1 for seq in lists]
        at = [row_of[seqs[0]] for seqs in ubatch.seqs]
        ranges = np.array([(row, 0, ends[row], 0) for row in at], np.int32)
        return GroupView(np.empty(0, np.int32), idx, ranges)

    def _base(self, pos: int) -> int:
        """Where the list of a sequence starts whose first query stands at `pos`."""
        return self.first_visible(pos) // TILE * TILE

    def _bases(self, places: list[int], at: list[int], n_lists: int) -> list[int]:
        first = [max(places)] * n_lists
        for row, pos in zip(at, places, strict=True):
            first[row] = min(first[row], pos)
        return [self._base(pos) for pos in first]

    def _idx(self, lists: list[int], bases: list[int], n_kv: int) -> Ints:
        """The lists as [n_lists, n_kv]. While it is asked for the same ones, `_add` writes what is
        new to their rows in the table, and nothing is put together anew."""
        if self._shown != (lists, bases, n_kv):
            table = np.stack([self._row(*of, n_kv) for of in zip(lists, bases, strict=True)])
            for seq in set(self._shown[0]).difference(lists):  # they let go of the old table
                base, row = self._rows[seq]
                self._rows[seq] = base, row.copy()
            self._rows.update(zip(lists, zip(bases, table, strict=True), strict=True))
            self._shown, self._table = (lists, bases, n_kv), table
        return self._table

    def _row(self, seq: int, base: int, n_kv: int) -> Ints:
        """Cells of positions [base, base + n_kv) of a sequence, -1 where there is none."""
        old_base, row = self._rows.get(seq, (0, None))
        if row is None or old_base != base or len(row) != n_kv:
            row = np.full(n_kv, -1, np.int32)
            near = (self.pos >= base) & (self.pos < base + n_kv)
            held = np.flatnonzero(self.member[seq] & near)
            row[self.pos[held] - base] = held
            self._rows[seq] = base, row
        return row
