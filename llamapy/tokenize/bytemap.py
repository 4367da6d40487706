"""The byte alphabet of byte-level BPE: each of the 256 bytes as one printable character.

Bytes that print in Latin-1 stand for themselves; the others, in order, are U+0100 and up.
"""

from __future__ import annotations

_PRINT = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHER = tuple(b for b in range(256) if b not in _PRINT)

CHARS: tuple[str, ...] = tuple(
    chr(b) if b in _PRINT else chr(0x100 + _OTHER.index(b)) for b in range(256)
)
BYTES: dict[str, int] = {c: b for b, c in enumerate(CHARS)}


def to_bytes(piece: str) -> bytes:
    """What a piece stands for; a character outside the alphabet stands for its own UTF-8."""
    try:
        return bytes([BYTES[c] for c in piece])
    except KeyError:
        out = (
            bytes([BYTES[c]]) if c in BYTES else c.encode("utf-8", "surrogateescape") for c in piece
        )
        return b"".join(out)
