"""Text that may not be text: bytes as str in which every byte that is no UTF-8 stands for itself.

An invalid byte b is the lone surrogate U+DC00 + b (Python's surrogateescape), as in argv.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_INVALID = re.compile("[\udc80-\udcff]")


def as_text(text: str | bytes) -> str:
    """`text` with invalid bytes escaped. Surrogates that are no such escapes become their three
    bytes.
    """
    if isinstance(text, bytes):
        return text.decode("utf-8", "surrogateescape")
    if text.isascii() or valid(text):
        return text
    return as_bytes(text).decode("utf-8", "surrogateescape")


def valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_bytes(text: str) -> bytes:
    """The bytes that `text` stands for: the inverse of `as_text`."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b"".join(_char_bytes(c) for c in text)


def _char_bytes(c: str) -> bytes:
    escape = "surrogateescape" if "\udc80" <= c <= "\udcff" else "surrogatepass"
    return c.encode("utf-8", escape)


def runs(text: str) -> Iterator[str | int]:
    """`text` as valid runs (str) and single invalid bytes (int), in order."""
    if text.isascii() or valid(text):
        yield text
        return
    at = 0
    for m in _INVALID.finditer(text):
        if m.start() > at:
            yield text[at : m.start()]
        yield ord(m[0]) - 0xDC00
        at = m.end()
    if at < len(text):
        yield text[at:]
