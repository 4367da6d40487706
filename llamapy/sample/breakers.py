"""Where DRY must not look across: breaker texts as the tokens that can carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

MAX_CHARS, MAX_TOKENS = 40, 20  # of a breaker, as llama-cli cuts them


class Texts(Protocol):
    @property
    def n_vocab(self) -> int: ...
    def piece(self, id: int, special: bool = False) -> bytes: ...
    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]: ...


def find_breakers(vocab: Texts, texts: Sequence[str]) -> dict[int, list[tuple[int, ...]]]:
    """First token to tails. A token that contains a breaker is one by itself (empty tail); one that
    ends with its beginning is one when the tokens of the rest follow."""
    wanted = [t[:MAX_CHARS].encode() for t in texts if t]
    tails = {
        (text, n): tuple(vocab.encode(text[n:], add_special=False)[:MAX_TOKENS])
        for text in wanted
        for n in range(1, len(text))
    }
    found: dict[int, list[tuple[int, ...]]] = {}
    for id in range(vocab.n_vocab):
        piece = vocab.piece(id, True)
        for text in wanted:
            if text in piece:
                _add(found, id, ())
                continue
            for n in range(1, len(text)):
                if piece.endswith(text[:n]):
                    _add(found, id, tails[text, n])
    return found


def _add(found: dict[int, list[tuple[int, ...]]], id: int, tail: tuple[int, ...]) -> None:
    known = found.setdefault(id, [])
    if tail not in known:
        known.append(tail)
