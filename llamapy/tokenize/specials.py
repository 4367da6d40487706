"""Finds special tokens in text: the longest wins, then the leftmost."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple


class _Match(NamedTuple):
    size: int
    at: int
    id: int


class Specials:
    """A set of special texts with their ids.

    A longer text beats a shorter one wherever it stands; of equal ones the left one wins. `rstrip`
    and `lstrip` hold ids that swallow the ASCII white space after or before them.
    """

    def __init__(
        self,
        tokens: Iterable[tuple[str, int]],
        rstrip: Container[int] = (),
        lstrip: Container[int] = (),
    ) -> None:
        self.ids = {text: id for text, id in tokens if text}
        self.rstrip, self.lstrip = rstrip, lstrip
        sizes: dict[str, set[int]] = {}
        for text in self.ids:
            sizes.setdefault(text[0], set()).add(len(text))
        self._sizes = {c: sorted(s, reverse=True) for c, s in sizes.items()}
        self._first = re.compile("[" + "".join(map(re.escape, sizes)) + "]") if sizes else None

    def split(self, text: str) -> Iterator[str | int]:
        """`text` as plain stretches (str, never empty) and ids of special tokens, in order."""
        at, strip = 0, False
        for m in self._matches(text):
            plain = text[at : m.at]
            if strip:
                plain = plain.lstrip(" \t\n\v\f\r")
            if m.id in self.lstrip:
                plain = plain.rstrip(" \t\n\v\f\r")
            if plain:
                yield plain
            yield m.id
            at, strip = m.at + m.size, m.id in self.rstrip
        rest = text[at:].lstrip(" \t\n\v\f\r") if strip else text[at:]
        if rest:
            yield rest

    def found_in(self, text: str) -> list[str]:
        """The special texts that occur in `text`, in order (for hints)."""
        return [text[m.at : m.at + m.size] for m in self._matches(text)]

    def _matches(self, text: str) -> Iterator[_Match]:
        if self._first is None:
            return
        at = 0
        while m := self._first.search(text, at):
            found = self._at(text, m.start())
            best = next(found, None)
            if best is None:
                at = m.start() + 1
            elif self._unbeaten(text, best):
                yield best
                at = best.at + best.size
            else:
                chosen, at = self._contest(text, best.at)
                yield from chosen

    def _at(self, text: str, at: int) -> Iterator[_Match]:
        for size in self._sizes.get(text[at], ()):
            id = self.ids.get(text[at : at + size])
            if id is not None and at + size <= len(text):
                yield _Match(size, at, id)

    def _unbeaten(self, text: str, m: _Match) -> bool:
        """True when no longer special text can start inside `m`."""
        inside = set(text[m.at + 1 : m.at + m.size])
        return all(self._sizes[c][0] <= m.size for c in inside if c in self._sizes)

    def _contest(self, text: str, start: int) -> tuple[list[_Match], int]:
        """Settles a stretch of overlapping matches; returns the winners and where the stretch
        ends.
        """
        at, end, rivals = start, start + 1, list[_Match]()
        while at < end:
            here = list(self._at(text, at))
            if here:
                end = max(end, at + here[0].size)
                rivals += here
            at += 1
        taken, winners = bytearray(end - start), list[_Match]()
        for m in sorted(rivals, key=lambda m: (-m.size, m.at)):
            a, b = m.at - start, m.at - start + m.size
            if not any(taken[a:b]):
                taken[a:b] = b"\1" * m.size
                winners.append(m)
        return sorted(winners, key=lambda m: m.at), end
