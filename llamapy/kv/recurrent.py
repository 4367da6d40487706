"""Recurrent states: a cell holds what one sequence carries from token to token, in every layer.

A cell is never written again once a step has filled it: a step reads one and writes another, so a
step that failed is undone by pointing back, and sequences that are the same share a cell.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from llamapy.base.errors import UsageError
from llamapy.base.types import F32
from llamapy.graph.device import Device
from llamapy.graph.tensor import Shape, Tensor
from llamapy.kv.api import GroupView, Ints, LayerCache, Loading, SavedReader, States, Ubatch
from llamapy.kv.places import Places

NONE = -1  # no cell: the state before the first token, all zero


class RecurrentStep:
    """See kv.api.Step."""

    def __init__(self, cache: RecurrentCache, ubatch: Ubatch, runs: list[tuple[int, ...]]) -> None:
        self._cache = cache
        self._before: tuple[list[int], list[int]] | None = None
        self._after = [
            (ubatch.seqs[row], cell, int(ubatch.pos[row + n - 1])) for row, n, _, cell in runs
        ]
        self.sizes: tuple[int, ...] = (len(runs),)
        self.views: list[GroupView] = []
        self.runs: Ints = np.array(runs, np.int32)

    def apply(self) -> None:
        books = self._cache
        self._before = books.cells.copy(), books.last.copy()
        for seqs, cell, pos in self._after:
            for seq in seqs:
                books.cells[seq], books.last[seq] = cell, pos

    def revert(self) -> None:
        if self._before is not None:
            self._cache.cells, self._cache.last = self._before


class RecurrentCache:
    """See kv.api.Memory. `cells[s]` is the cell of sequence s or NONE, `last[s]` its last position.
    There are enough cells for every sequence to have one while each gets another."""

    def __init__(
        self,
        states: Sequence[States],
        device_of: Callable[[int], Device],
        *,
        n_seq_max: int,
        n_ubatch: int,
    ) -> None:
        self.cut = "runs"
        self.n_seq_max = n_seq_max
        self.n_cells = n_seq_max + min(n_seq_max, n_ubatch)
        self.cells = [NONE] * n_seq_max
        self.last = [-1] * n_seq_max
        self._shapes = states
        self._states = [
            {name: _tensor(il, name, shape, self.n_cells) for name, shape in layer.items()}
            for il, layer in enumerate(states)
        ]
        self._places = Places(
            (device_of(il), t) for il, layer in enumerate(self._states) for t in layer.values()
        )

    @property
    def n_bytes(self) -> int:
        return self._places.n_bytes

    def free(self) -> None:
        self._places.free()

    def layer(self, il: int) -> LayerCache:
        raise LookupError(f"layer {il} has no attention")

    def state(self, il: int) -> Mapping[str, Tensor]:
        return self._states[il]

    def begin(self, ubatch: Ubatch) -> RecurrentStep:
        free = iter(sorted(set(range(self.n_cells)).difference(self.cells)))
        runs: list[tuple[int, ...]] = []
        row, seen = 0, 0
        for seqs, rows in groupby(ubatch.seqs):
            n = len(list(rows))
            runs.append((row, n, self._cell_of(seqs), next(free)))
            row, seen = row + n, seen + len(seqs)
        if len({seq for first, *_ in runs for seq in ubatch.seqs[first]}) != seen:
            raise UsageError("the tokens of a sequence must follow each other in a ubatch")
        return RecurrentStep(self, ubatch, runs)

    def _cell_of(self, seqs: tuple[int, ...]) -> int:
        cells = {self.cells[seq] for seq in seqs}
        if len(cells) > 1:
            raise UsageError(f"sequences {', '.join(map(str, seqs))} differ: no token is of all")
        return cells.pop()

    def worst_sizes(self, n_tokens: int, n_seqs: int) -> tuple[int, ...]:
        return (n_seqs,)

    def pos_max(self, seq: int) -> int:
        return self.last[seq]

    def twins(self, seq: int) -> set[int]:
        return {s for s, cell in enumerate(self.cells) if cell == self.cells[seq]}

    def clear(self) -> None:
        self.cells = [NONE] * self.n_seq_max
        self.last = [-1] * self.n_seq_max

    def can_rm(self, seq: int, p0: int, p1: int) -> bool:
        """All of a sequence or nothing: a state cannot go back."""
        last = self.last[seq]
        nothing = p0 > last or 0 <= p1 <= p0
        return nothing or (p0 <= 0 and (p1 < 0 or p1 > last))

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        if not self.can_rm(seq, p0, p1):
            return False
        if p0 <= self.last[seq] and (p1 < 0 or p1 > p0):
            self.cells[seq], self.last[seq] = NONE, -1
        return True

    def check_cp(self, src: int, dst: int, p0: int, p1: int) -> bool:
        """Whether there is anything to copy. UsageError for a part of a sequence."""
        last = self.last[src]
        if src == dst or p0 > last or 0 <= p1 <= p0:
            return False
        if p0 > 0 or 0 <= p1 <= last:
            raise UsageError(
                f"a part of sequence {src} cannot be copied: this model keeps the state after its "
                f"last token, {last}, alone; copy all of it"
            )
        if self.cells[dst] != NONE:
            raise UsageError(
                f"sequence {dst} has a state of its own: remove it before it is copied from "
                f"sequence {src}"
            )
        return True

    def seq_cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        if self.check_cp(src, dst, p0, p1):
            self.cells[dst], self.last[dst] = self.cells[src], self.last[src]

    def seq_keep(self, seq: int) -> None:
        cell, last = self.cells[seq], self.last[seq]
        self.clear()
        self.cells[seq], self.last[seq] = cell, last

    def describe(self) -> dict[str, Any]:
        return {"states": [{k: list(ne) for k, ne in layer.items()} for layer in self._shapes]}

    def save(self, seq: int) -> Iterator[bytes]:
        yield struct.pack("<i", self.last[seq])
        if self.cells[seq] != NONE:
            for t, n_bytes in self._cells():
                yield bytes(t.buffer.read(t.offset_bytes + self.cells[seq] * n_bytes, n_bytes))

    def plan_load(self, seq: int, reader: SavedReader) -> Loading:
        last = reader.number("the last position", -1, reader.n_ctx - 1)
        states = [(t, n, reader.take(n, t.name)) for t, n in self._cells()] if last >= 0 else []

        def finish() -> None:
            if last >= 0:
                cell = min(set(range(self.n_cells)).difference(self.cells))
                for t, n_bytes, raw in states:
                    t.buffer.write(t.offset_bytes + cell * n_bytes, raw)
                self.cells[seq] = cell
            self.last[seq] = last

        return Loading(last, finish)

    def _cells(self) -> Iterator[tuple[Tensor, int]]:
        """Each state with the bytes of one cell."""
        for layer in self._states:
            for t in layer.values():
                yield t, t.n_bytes // self.n_cells


def _tensor(il: int, name: str, shape: tuple[int, ...], n_cells: int) -> Tensor:
    if not 1 <= len(shape) <= 3:
        raise ValueError(f"state {name} of layer {il} has {len(shape)} axes")
    ne = (*shape, n_cells, 1, 1)
    ne4: Shape = (ne[0], ne[1], ne[2], ne[3])
    return Tensor(F32, ne4, name=f"state_{name}-{il}")
