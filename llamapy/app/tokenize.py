"""Text to tokens as data: ids, bytes, and where in the text each token's bytes begin."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llamapy.base.errors import LlamapyError, UsageError
from llamapy.loader.splits import open_model
from llamapy.tokenize import Tokenizer, load


@dataclass(frozen=True, slots=True)
class Piece:
    """One token and its place in the text, in bytes: empty for one that was added, None for all
    when the vocabulary does not give the text back byte for byte."""

    id: int
    bytes: bytes
    start: int | None
    end: int | None

    @property
    def added(self) -> bool:
        return self.start is not None and self.start == self.end


def open_tokenizer(path: Path, *, pre: str | None, lenient: bool) -> Tokenizer:
    """The tokenizer of a model file, without its weights."""
    with open_model(path) as files:
        return load(files, pre=pre, lenient=lenient)


def pieces(tokenizer: Tokenizer, ids: Sequence[int], text: bytes) -> list[Piece]:
    """Tokens of `text` with their places. A space that the vocabulary puts before a stretch of text
    has no place in it."""
    own = [tokenizer.piece(i, special=True) for i in ids]
    shown = _in_text(tokenizer, ids, text)
    if b"".join(shown) != text:
        return [Piece(id, piece, None, None) for id, piece in zip(ids, own, strict=True)]
    out: list[Piece] = []
    at = 0
    for id, piece, seen in zip(ids, own, shown, strict=True):
        out.append(Piece(id, piece, at, at + len(seen)))
        at += len(seen)
    return out


def _in_text(tokenizer: Tokenizer, ids: Sequence[int], text: bytes) -> list[bytes]:
    """The bytes each token stands for in the text: those of a control token where they are written
    there, none where the token was added."""
    written = tokenizer.pieces(ids, special=True)
    ends = [0] * (ids[:1] == [tokenizer.bos]) + [len(ids) - 1] * (ids[-1:] == [tokenizer.eos])
    for i in ends:
        if b"".join(written) != text and tokenizer.is_control(ids[i]):
            written[i] = b""
    return written


def check_roundtrip(tokenizer: Tokenizer, ids: Sequence[int], text: bytes) -> None:
    """LlamapyError with the first byte that differs when `ids` do not give `text` back (control
    tokens at the ends, and spaces that the vocabulary adds, aside)."""
    if all(piece.start is not None for piece in pieces(tokenizer, ids, text)):
        return
    decoded = tokenizer.decode(ids)
    at = next((i for i, (a, b) in enumerate(zip(decoded, text, strict=False)) if a != b), None)
    at = min(len(decoded), len(text)) if at is None else at
    raise LlamapyError(
        f"round trip: the tokens give other bytes than the text from byte {at} on"
        f" ({decoded[at : at + 8]!r}, text {text[at : at + 8]!r})"
    )


def parse_ids(text: str) -> list[int]:
    """`"1,2,3"` or `"1 2 3"` as ids."""
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--tokens: expected numbers such as 1,2,3, got '{text}'") from None


def as_json(piece: Piece) -> dict[str, Any]:
    """`bytes` (base64) only where they are no text; `piece` then has U+FFFD for them."""
    fields: dict[str, Any] = {"id": piece.id, "start": piece.start, "end": piece.end}
    return fields | text_fields("piece", piece.bytes)


def text_fields(name: str, raw: bytes) -> dict[str, str]:
    """Bytes under `name` as text, and as they are under `bytes` where they are none."""
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {
            name: raw.decode("utf-8", "replace"),
            "bytes": base64.b64encode(raw).decode("ascii"),
        }


def about(tokenizer: Tokenizer) -> dict[str, Any]:
    """The facts of a vocabulary."""
    return {
        "model": tokenizer.kind,
        "pre": tokenizer.pre,
        "n_vocab": tokenizer.n_vocab,
        "add_bos": tokenizer.add_bos,
        "add_eos": tokenizer.add_eos,
        "bos": tokenizer.bos,
        "eos": tokenizer.eos,
        "eog": sorted(tokenizer.eog),
        "notes": tokenizer.notes,
    }
