"""Unigram vocabularies (`t5`; Kudo 2018, arXiv 1804.10959): of all ways to cut a text into pieces,
the one whose scores, logarithms of probabilities, have the greatest sum.

Sums are in double precision, as where such vocabularies are trained and used: in single precision
long words are cut differently now and then. Words are cut one by one and remembered.
"""

from __future__ import annotations

import re

import numpy as np

from llamapy.tokenize.charsmap import CharsMap
from llamapy.tokenize.keys import Keys, numbers
from llamapy.tokenize.roles import BY_CONVENTION
from llamapy.tokenize.spaced import Spaced
from llamapy.tokenize.vocab import NORMAL, UNUSED, USER_DEFINED, read_vocab

SPACE = "▁"
MAP_KEY = "tokenizer.ggml.precompiled_charsmap"
UNKNOWN_COSTS = np.float32(10.0)  # below the least score of a piece
MAX_KEPT, LONGEST_KEPT = 1 << 16, 64  # words whose ids are kept, and their characters
LEAST = -1.7976931348623157e308
_WORD = re.compile(f"{SPACE}[^{SPACE}]*|[^{SPACE}]+")
_INVALID = re.compile("[\udc80-\udcff]")


class Unigram(Spaced):
    kind = "t5"

    def __init__(self, keys: Keys) -> None:
        """Raises FileError for a map of characters that is none."""
        super().__init__(read_vocab(keys, BY_CONVENTION["t5"]))
        pre = "tokenizer.ggml."
        self.add_bos = keys.get_bool(f"{pre}add_bos_token", False)
        self.add_eos = keys.get_bool(f"{pre}add_eos_token", True)
        self.space_prefix = keys.get_bool(f"{pre}add_space_prefix", False)
        self.squeeze = keys.get_bool(f"{pre}remove_extra_whitespaces", False)
        raw = numbers(keys.get_array(MAP_KEY), np.uint8).tobytes() if MAP_KEY in keys.keys else b""
        self._map = CharsMap(raw) if raw else None
        v = self.vocab
        used = np.flatnonzero(np.isin(v.type, (NORMAL, USER_DEFINED, UNUSED))).tolist()
        pieces, scores = v.tokens.to_list(), v.score.astype(np.float64).tolist()
        self._pieces_by_text: dict[str, tuple[int, float]] = {}
        for id in used:
            text = pieces[id].decode("utf-8", "ignore")
            self._pieces_by_text[text] = id, 0.0 if v.type[id] == USER_DEFINED else scores[id]
        normal = v.score[v.type == NORMAL]
        least = normal.min() if len(normal) else np.float32(0.0)
        self._unknown_score = float(least - UNKNOWN_COSTS)
        self._sizes = _sizes(self._pieces_by_text)
        self._by_word = not any(SPACE in text[1:] for text in self._pieces_by_text)
        self._kept: dict[str, list[int]] = {}

    def _encode_part(self, text: str, after_special: bool) -> list[int]:
        ids: list[int] = []
        for word in self._words(text):
            found = self._kept.get(word)
            if found is None:
                found = self._cut(word)
                if len(self._kept) < MAX_KEPT and len(word) <= LONGEST_KEPT:
                    self._kept[word] = found
            again = ids and found and ids[-1] == found[0] == self.unk
            ids += found[1:] if again else found  # side by side, unknown ones are one
        return ids

    def _words(self, text: str) -> list[str]:
        """The text as the pieces see it, cut where no piece lies across."""
        text = _INVALID.sub("\ufffd", text) if self._map is None else self._map.apply(text)
        if self.squeeze:
            words = [SPACE + word for word in text.split(" ") if word]
        else:
            body = text.lstrip(" ")
            if self.space_prefix and body:
                text = text[: len(text) - len(body)] + " " + body
            words = _WORD.findall(text.replace(" ", SPACE))
        return words if self._by_word else ["".join(words)]

    def _cut(self, word: str) -> list[int]:
        """The best way to cut `word`; characters that no piece begins with, unknown, cost most."""
        n, unk = len(word), -1 if self.unk is None else self.unk
        best, start, ids = [0.0] + [LEAST] * n, [0] * (n + 1), [unk] * (n + 1)
        find, sizes = self._pieces_by_text.get, self._sizes
        for at in range(n):
            so_far, alone = best[at], False
            for size in sizes.get(word[at], ()):
                end = at + size
                piece = find(word[at:end]) if end <= n else None
                if piece is not None:
                    alone = alone or size == 1
                    if so_far + piece[1] > best[end]:
                        best[end], start[end], ids[end] = so_far + piece[1], at, piece[0]
            if not alone and so_far + self._unknown_score > best[at + 1]:
                best[at + 1], start[at + 1], ids[at + 1] = so_far + self._unknown_score, at, unk
        out, at, later = list[int](), n, None
        while at:
            if ids[at] != unk or later != unk:
                out.append(ids[at])
            later, at = ids[at], start[at]
        return [id for id in reversed(out) if id >= 0]

    def _encode_run(self, text: str) -> list[int]:
        return self._encode_part(text, False)

    def _encode_byte(self, value: int) -> list[int]:
        return self._encode_part(chr(0xDC00 + value), False)


def _sizes(pieces: dict[str, tuple[int, float]]) -> dict[str, list[int]]:
    """Characters that pieces have, by the first one, fewest first."""
    found: dict[str, set[int]] = {}
    for text in pieces:
        if text:
            found.setdefault(text[0], set()).add(len(text))
    return {c: sorted(sizes) for c, sizes in found.items()}
