"""Backslash escapes in a prompt, where the user asks for them (`-e`); otherwise text is text."""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_PLAIN = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"'": b"'", b'"': b'"', b"\\": b"\\"}


def unescape(text: bytes) -> bytes:
    r"""`\n \r \t \' \" \\ \xHH` as the bytes they name. Anything else keeps its backslash."""

    def one(m: re.Match[bytes]) -> bytes:
        if m[1]:
            return bytes([int(m[1], 16)])
        return _PLAIN.get(m[2], m[0])

    return _ESCAPE.sub(one, text)
