"""sentencepiece's precompiled map of characters: what each stretch of a text becomes (NFKC and the
like). At each place the longest key there is wins.

The map is a size in bytes, a double array of so many (Kanda 2018, XOR-compressed: bits 10 to 30
BASE, bit 9 that BASE counts in 256s, bit 8 that a key ends, bits 0 to 7 and 31 the check), then the
texts that keys become, each ended by a zero byte. Nothing in it is believed: what leads outside of
it ends a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from llamapy.base.errors import FileError

MAX_KEY = 64  # characters; those of NFKC have at most 4
MAX_TEXT = 256  # bytes that a key may become; those of NFKC have at most 33
MAX_KEPT = 1 << 16


class CharsMap(dict[int, str]):
    """As a dict: what single characters become, by code point, found when first asked for."""

    def __init__(self, raw: bytes) -> None:
        """FileError where `raw` is no such map."""
        super().__init__()
        size = int.from_bytes(raw[:4], "little")
        if len(raw) < 8 or size % 4 or not 4 <= size < len(raw) - 4:
            raise FileError(
                f"tokenizer.ggml.precompiled_charsmap: {len(raw)} bytes with a table of {size}: "
                "the file is damaged"
            )
        self._nodes = memoryview(raw[4 : 4 + size]).cast("I")
        self._texts = raw[4 + size :]
        self._pairs: dict[str, bool] = {}

    def apply(self, text: str) -> str:
        """`text` mapped. A byte that is no UTF-8 (see text.py) becomes U+FFFD."""
        longer = {p for p in map("".join, zip(text, text[1:], strict=False)) if self._goes_on(p)}
        if not longer:
            return text.translate(self)
        places = re.compile("|".join(map(re.escape, longer)), re.DOTALL)
        out, at = list[str](), 0
        while m := places.search(text, at):
            out.append(text[at : m.start()].translate(self))
            found, n = self._longest(text, m.start())
            out.append(found)
            at = m.start() + n
        return "".join([*out, text[at:].translate(self)])

    def __missing__(self, code: int) -> str:
        self[code] = found = self._longest(chr(code), 0)[0]
        return found

    def _goes_on(self, pair: str) -> bool:
        """Whether a key has these two characters at its beginning."""
        found = self._pairs.get(pair)
        if found is None:
            if len(self._pairs) >= MAX_KEPT:
                self._pairs.clear()
            found = self._pairs[pair] = len(list(self._steps(pair, 0))) == 2
        return found

    def _longest(self, text: str, at: int) -> tuple[str, int]:
        """What stands for the longest key at `at`, or for one character, and how many it had."""
        c = text[at]
        best = "\ufffd" if "\udc80" <= c <= "\udcff" else c, 1
        for i, end in enumerate(self._steps(text, at)):
            if end >= 0:
                stop = self._texts.find(b"\0", end, end + MAX_TEXT)
                if stop >= 0:
                    best = self._texts[end:stop].decode("utf-8", "replace"), i + 1
        return best

    def _steps(self, text: str, at: int) -> Iterator[int]:
        """After each character that leads on: where the text of the key that ends there lies, or
        -1."""
        nodes, n = self._nodes, len(self._nodes)
        node = _base(nodes[0])
        for c in text[at : at + MAX_KEY]:
            if c == "\0" or "\ud800" <= c <= "\udfff":
                return
            ends = False
            for byte in c.encode():
                node ^= byte
                if node >= n or nodes[node] & 0x800000FF != byte:
                    return
                ends = bool(nodes[node] & 0x100)
                node ^= _base(nodes[node])
            yield nodes[node] & 0x7FFFFFFF if ends and node < n else -1


def _base(unit: int) -> int:
    return (unit >> 10) << ((unit & 0x200) >> 6)
