"""Stems: beginnings that several prompts share, so that each is evaluated once.

`find_stems` tells which there are, `Stems` keeps those in the memory that are still wanted, each as
a sequence of its own that others are copied from: cells are shared, states are one pointer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LEAST = 16  # tokens: for fewer it does not pay to let others wait


@dataclass(frozen=True, slots=True)
class Stem:
    """The first `length` tokens of `n_users` prompts. `number` tells one from another."""

    number: int
    length: int
    n_users: int


def find_stems(prompts: Sequence[Sequence[int]]) -> list[tuple[Stem, ...]]:
    """The stems of each prompt, the shortest first, each LEAST tokens longer than the one before. A
    prompt's last token is in none, since its logits are wanted."""
    texts = [list(ids[:-1]) for ids in prompts]
    order = sorted(range(len(texts)), key=texts.__getitem__)
    found: list[tuple[Stem, ...]] = [() for _ in texts]
    alike = [_alike(texts[a], texts[b]) for a, b in zip(order, order[1:], strict=False)]
    for length, first, last in sorted(_intervals(alike)):
        before = found[order[first]]
        if length - (before[-1].length if before else 0) >= LEAST:
            stem = Stem(first + len(texts) * length, length, last - first + 1)
            for i in order[first : last + 1]:
                found[i] = (*before, stem)
    return found


def _alike(a: list[int], b: list[int]) -> int:
    """Tokens that both begin with."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _intervals(alike: Sequence[int]) -> list[tuple[int, int, int]]:
    """Of texts in order, `alike[i]` tokens shared by i and i + 1: (length, first, last) of every
    largest group that shares so many."""
    out: list[tuple[int, int, int]] = []
    open_: list[tuple[int, int]] = []  # length, first; both ascend
    for i, n in enumerate([*alike, 0]):
        first = i
        while open_ and open_[-1][0] > n:
            length, first = open_.pop()
            out.append((length, first, i))
        if n and (not open_ or open_[-1][0] < n):
            open_.append((n, first))
    return out


class Stems:
    """Stems in the memory of `ctx`: sequences among `seqs`, of together `n_cells` tokens. The one
    used last is the last to go."""

    def __init__(self, ctx: Any, seqs: Sequence[int], n_cells: int) -> None:
        self._ctx, self._n_cells = ctx, n_cells
        self._free = list(seqs)
        self._kept: dict[int, tuple[Stem, int]] = {}  # by number: the sequence it is
        self._left: dict[int, int] = {}  # users that are still to come

    def copy(self, stems: Sequence[Stem], n_past: int, seq: int) -> int:
        """Have `seq`, `n_past` tokens into a prompt, begin with the longest of its stems that is
        here. The tokens it now has; 0: none is longer than what it had."""
        for stem in reversed(stems):
            if stem.length <= n_past:
                break
            if stem.number in self._kept:
                _, source = self._kept[stem.number] = self._kept.pop(stem.number)
                self._ctx.seq_rm(seq, 0)
                self._ctx.seq_cp(source, seq)
                return stem.length
        return 0

    def passed(self, stem: Stem, seq: int, *, at: bool) -> None:
        """A prompt has come to the end of a stem or, by a copy, further. `at`: `seq` ends with it,
        so that it can be kept for those to come."""
        left = self._left[stem.number] = self._left.get(stem.number, stem.n_users) - 1
        if left <= 0:
            self._drop(stem.number)
        elif at and stem.number not in self._kept and stem.length <= self._n_cells:
            self._make_room(stem.length)
            if self._free:
                own = self._free.pop()
                self._ctx.seq_cp(seq, own)
                self._kept[stem.number] = stem, own

    def _make_room(self, length: int) -> None:
        used = sum(stem.length for stem, _ in self._kept.values())
        for number, (stem, _) in list(self._kept.items()):
            if self._free and used + length <= self._n_cells:
                return
            used -= stem.length
            self._drop(number)

    def _drop(self, number: int) -> None:
        if number in self._kept:
            _, own = self._kept.pop(number)
            self._ctx.seq_rm(own, 0)
            self._free.append(own)
