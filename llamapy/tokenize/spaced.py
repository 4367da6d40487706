"""What vocabularies whose pieces have U+2581 for a space share: bytes of a piece, and the space
that encoding puts before a stretch of text."""

from __future__ import annotations

from collections.abc import Iterable

from llamapy.tokenize.api import Tokenizer
from llamapy.tokenize.vocab import BYTE, CONTROL, USER_DEFINED

SPACE = "▁".encode()  # U+2581 stands for a space in pieces


class Spaced(Tokenizer):
    """`space_prefix`: whether encoding puts a space before a stretch of text."""

    space_prefix = False

    def _piece(self, id: int) -> bytes:
        text, type_ = self.vocab.tokens[id], self.vocab.type[id]
        if type_ == BYTE:
            value = next((v for v, i in self.vocab.byte_ids.items() if i == id), None)
            return text if value is None else bytes([value])
        return text if type_ == CONTROL else text.replace(SPACE, b" ")

    def pieces(self, ids: Iterable[int], *, special: bool = False) -> list[bytes]:
        """As ever; the space that `encode` puts before a stretch of text is taken off again."""
        if not self.space_prefix:
            return super().pieces(ids, special=special)
        out, after_special = list[bytes](), True
        for id in map(int, ids):
            piece = self.piece(id, special)
            out.append(piece[1:] if after_special and piece[:1] == b" " else piece)
            after_special = self.is_control(id) or self.vocab.type[id] == USER_DEFINED
        return out
