"""Bytes of tokens to text as it comes: no character is ever split, no stop text ever shown.

stream = Stream(stops=[b"\n\n"])
for id in ids:
    print(stream.push(tokenizer.piece(id)), end="")
    if stream.stopped: break
print(stream.finish())
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from llamapy.tokenize.stop import StopMatcher

BAD = "�"


class Utf8Stream:
    """Incremental decoder. Holds back at most three bytes, the beginning of a character.

    Bytes that can be no character become U+FFFD at once; `replaced` tells that this happened.
    """

    def __init__(self) -> None:
        self._held = b""
        self.replaced = False

    @property
    def held(self) -> bytes:
        return self._held

    def push(self, data: bytes) -> str:
        return self._decode(self._held + data, False)

    def finish(self) -> str:
        """What is left: nothing, or one U+FFFD for the beginning of a character."""
        return self._decode(self._held, True)

    def _decode(self, data: bytes, final: bool) -> str:
        try:
            text, used = codecs.utf_8_decode(data, "strict", final)
        except UnicodeDecodeError:
            text, used = codecs.utf_8_decode(data, "replace", final)
            self.replaced = True
        self._held = data[used:]
        return text


class Stream:
    """Pieces in, printable text out, ended by the first of `stops`.

    `raw` is the bytes behind the text given out so far. After `stopped`, `push` gives nothing more.
    """

    def __init__(self, stops: Iterable[str | bytes] = (), *, include_stop: bool = False) -> None:
        self._stops = StopMatcher(stops)
        self._utf8 = Utf8Stream()
        self._include = include_stop
        self._raw: list[bytes] = []

    @property
    def stopped(self) -> bytes | None:
        """The stop text that ended the stream, or None."""
        return self._stops.fired

    @property
    def replaced(self) -> bool:
        """True when bytes that are no UTF-8 were replaced by U+FFFD."""
        return self._utf8.replaced

    @property
    def raw(self) -> bytes:
        return b"".join(self._raw)

    def push(self, piece: bytes) -> str:
        """The text that is certain after `piece`; may be empty."""
        if self.stopped is not None:
            return ""
        out = self._stops.push(piece)
        if self.stopped is not None and self._include:
            out += self.stopped
        self._raw.append(out)
        return self._utf8.push(out)

    def finish(self) -> str:
        """What was held back: text that began like a stop, and U+FFFD for half a character."""
        rest = self._stops.finish()
        self._raw.append(rest)
        return self._utf8.push(rest) + self._utf8.finish()
