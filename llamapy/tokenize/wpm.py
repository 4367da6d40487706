"""WordPiece vocabularies (`bert`): words cut into the longest pieces there are, from the left.

A piece that begins a word starts with U+2581 in the file (where the original has none), one inside
of a word with nothing (where the original has ##).
"""

from __future__ import annotations

import unicodedata

from llamapy.tokenize.api import Tokenizer
from llamapy.tokenize.keys import Keys
from llamapy.tokenize.roles import BY_CONVENTION
from llamapy.tokenize.vocab import read_vocab

SPACE = "▁"
CJK = (
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F),
)  # fmt: skip
MAX_KEPT = 1 << 16  # words whose ids are kept


class WordPiece(Tokenizer):
    kind = "bert"

    def __init__(self, keys: Keys) -> None:
        super().__init__(read_vocab(keys, BY_CONVENTION["bert"]))
        pre = "tokenizer.ggml."
        self.add_bos = keys.get_bool(f"{pre}add_bos_token", True)
        self.add_eos = keys.get_bool(f"{pre}add_sep_token", True)
        self.lower = keys.get_bool(f"{pre}normalizer.lowercase", True)
        self.strip_accents = keys.get_bool(f"{pre}normalizer.strip_accents", self.lower)
        self._ids: dict[str, int] = {}
        for i, text in enumerate(self.vocab.tokens.to_list()):
            self._ids.setdefault(text.decode("utf-8", "replace"), i)
        self._longest = max(map(len, self._ids), default=1)
        self._kept: dict[str, list[int]] = {}

    @property
    def eos(self) -> int | None:
        """What ends a text: [SEP]."""
        return self.role("sep")

    def _encode_run(self, text: str) -> list[int]:
        ids: list[int] = []
        for word in self._words(text):
            found = self._kept.get(word)
            if found is None:
                found = self._pieces_of(SPACE + word)
                if len(self._kept) < MAX_KEPT:
                    self._kept[word] = found
            ids += found
        return ids

    def _words(self, text: str) -> list[str]:
        if self.strip_accents:
            text = unicodedata.normalize("NFD", text)
        out: list[str] = []
        for c in text:
            kind = unicodedata.category(c)
            if c.isspace():
                out.append(" ")
            elif c in "\0\ufffd" or kind in ("Cc", "Cf") or self.strip_accents and kind == "Mn":
                continue
            else:
                c = c.lower() if self.lower else c
                out.append(f" {c} " if _alone(c, kind) else c)
        return "".join(out).split()

    def _pieces_of(self, word: str) -> list[int]:
        """The longest piece at each place; one unknown token where there is none at some place."""
        ids: list[int] = []
        at = 0
        while at < len(word):
            for end in range(min(len(word), at + self._longest), at, -1):
                id = self._ids.get(word[at:end])
                if id is not None:
                    ids.append(id)
                    at = end
                    break
            else:
                return [] if self.unk is None else [self.unk]
        return ids

    def _encode_byte(self, value: int) -> list[int]:
        return []  # no character

    def _piece(self, id: int) -> bytes:
        text = self.vocab.tokens[id]
        space = SPACE.encode()
        return b" " + text[len(space) :] if text.startswith(space) else text


def _alone(c: str, kind: str) -> bool:
    """Whether a character is a word by itself."""
    if kind.startswith("P") or (c < "\x7f" and kind.startswith("S")):
        return True
    return any(low <= ord(c[0]) <= high for low, high in CJK)
