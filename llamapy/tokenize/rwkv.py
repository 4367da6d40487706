"""RWKV's vocabularies (`rwkv`): at each place the longest token there is, of any bytes. The file
writes tokens as Python writes strings: \\n, \\x00 and the like."""

from __future__ import annotations

import re

from llamapy.tokenize.api import Tokenizer
from llamapy.tokenize.keys import Keys
from llamapy.tokenize.text import as_bytes
from llamapy.tokenize.vocab import read_vocab

_ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_NAMED = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


def unescaped(text: bytes) -> bytes:
    """The bytes that a token of the file stands for."""

    def of(m: re.Match[bytes]) -> bytes:
        return bytes([int(m[1], 16)]) if m[1] else _NAMED.get(m[2], m[2])

    return _ESCAPE.sub(of, text) if b"\\" in text else text


class Rwkv(Tokenizer):
    kind = "rwkv"

    def __init__(self, keys: Keys) -> None:
        super().__init__(read_vocab(keys, {}))
        self._bytes = [unescaped(text) for text in self.vocab.tokens.to_list()]
        control = self.vocab.is_control  # their text is no token unless specials are parsed
        self._ids = {t: i for i, t in enumerate(self._bytes) if t and not control(i)}
        sizes: dict[bytes, set[int]] = {}
        for text in self._ids:
            sizes.setdefault(text[:2], set()).add(len(text))
        self._sizes = {start: sorted(s, reverse=True) for start, s in sizes.items()}

    def _encode_part(self, text: str, after_special: bool) -> list[int]:
        return self._greedy(as_bytes(text))

    def _greedy(self, raw: bytes) -> list[int]:
        ids: list[int] = []
        find, sizes, at = self._ids.get, self._sizes, 0
        while at < len(raw):
            for n in (*sizes.get(raw[at : at + 2], ()), 1):
                id = find(raw[at : at + n])
                if id is not None:
                    break
            id = self.unk if id is None else id  # of the byte alone
            ids += [] if id is None else [id]
            at += n
        return ids

    def _encode_run(self, text: str) -> list[int]:
        return self._greedy(text.encode())

    def _encode_byte(self, value: int) -> list[int]:
        return self._greedy(bytes([value]))

    def _piece(self, id: int) -> bytes:
        return self._bytes[id]
