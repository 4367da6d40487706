"""The books of one group of cells: position and sequences of each. Knows nothing of K and V."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from llamapy.kv.api import GroupView, Ints, Ubatch

TILE = 64  # attention cuts positions into tiles of this size; a list starts on a tile
PAD = 256  # list lengths are rounded up to this, so one graph lasts this many decode steps


def pad(n: int, to: int = PAD) -> int:
    return -(-n // to) * to


class Cells:
    """`pos[c]` is the position in cell c, -1 when free; `member[s, c]` whether sequence s holds it.
    `n_swa` > 0 makes this a window group: a cell no query will see again counts as free."""

    def __init__(self, n_cells: int, n_seq_max: int, n_swa: int = 0) -> None:
        self.n_cells = n_cells
        self.n_swa = n_swa
        self.pos: Ints = np.full(n_cells, -1, np.int32)
        self.member: npt.NDArray[np.bool_] = np.zeros((n_seq_max, n_cells), np.bool_)

    def held(self, seq: int) -> Ints:
        """The positions of a sequence, in the order of their cells."""
        held: Ints = self.pos[self.member[seq]]
        return held

    def pos_max(self, seq: int) -> int:
        return int(self.held(seq).max(initial=-1))

    def twins(self, seq: int) -> set[int]:
        """The sequences that hold the same cells, itself included."""
        return set(np.flatnonzero((self.member == self.member[seq]).all(axis=1)).tolist())

    def choose(self, n: int, next_pos: Ints) -> Ints | None:
        """n cells: empty ones first, then those out of every window, the oldest first, so that a
        sequence can go back as far as possible. None when there are too few.
        `next_pos[s]`: the first position that sequence s will be asked about."""
        cells = np.flatnonzero(self.pos < 0)
        if len(cells) < n and self.n_swa:
            seen = self.pos[None, :] > (next_pos - self.n_swa)[:, None]  # [n_seq_max, n_cells]
            gone = np.flatnonzero((self.pos >= 0) & ~(self.member & seen).any(axis=0))
            oldest = gone[np.argsort(self.pos[gone], kind="stable")]
            cells = np.sort(np.concatenate([cells, oldest[: n - len(cells)]]))
        return cells[:n].astype(np.int32) if len(cells) >= n else None

    def take(self, cells: Ints, ubatch: Ubatch) -> None:
        self.pos[cells] = ubatch.pos
        self.member[:, cells] = False
        for cell, seqs in zip(cells, ubatch.seqs, strict=True):
            for seq in seqs:
                self.member[seq, cell] = True

    def drop(self, cells: Ints) -> None:
        """Free cells whose contents are lost."""
        self.member[:, cells] = False
        self.pos[cells] = -1

    def rm(self, seq: int, p0: int, p1: int) -> None:
        self.member[seq] &= (self.pos < p0) | (self.pos >= p1)
        self._release()

    def cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        self.member[dst] |= self.member[src] & (self.pos >= p0) & (self.pos < p1)

    def keep(self, seq: int) -> None:
        self.member[np.arange(len(self.member)) != seq] = False
        self._release()

    def clear(self) -> None:
        self.pos[:] = -1
        self.member[:] = False

    def _release(self) -> None:
        self.pos[~self.member.any(axis=0)] = -1

    def first_visible(self, pos: int) -> int:
        """The first position a causal query at `pos` sees."""
        return max(0, pos - self.n_swa + 1) if self.n_swa else 0

    def list_length(self, pos_max: int, n_tokens: int) -> int:
        """Places a list needs when its last query stands at `pos_max`. Grows with `pos_max`, and in
        a window group stops growing, so that a long run keeps one graph."""
        n = pos_max + 1
        if self.n_swa:
            n = min(n, self.n_swa + n_tokens + TILE - 2)
        return pad(n)

    def view(self, cells: Ints, ubatch: Ubatch, lists: list[int], n_kv: int) -> GroupView:
        """Cell lists and visible ranges of a ubatch whose cells have been taken."""
        row_of = {seq: i for i, seq in enumerate(lists)}
        which = np.array([row_of[seqs[0]] for seqs in ubatch.seqs], np.int32)  # [n_tokens]
        idx = np.full((len(lists), n_kv), -1, np.int32)
        ranges = np.empty((ubatch.n_tokens, 4), np.int32)
        for row, seq in enumerate(lists):
            mine = which == row
            pos = ubatch.pos[mine]
            base = self.first_visible(int(pos.min())) // TILE * TILE
            near = (self.pos >= base) & (self.pos < base + n_kv)
            held = np.flatnonzero(self.member[seq] & near)
            idx[row, self.pos[held] - base] = held
            lo = np.maximum(pos - self.n_swa + 1, 0) if self.n_swa else np.zeros_like(pos)
            ranges[mine, 0] = row
            ranges[mine, 1] = lo - base
            ranges[mine, 2] = pos + 1 - base
            ranges[mine, 3] = pos - base
        return GroupView(cells, idx, ranges)
