"""A file of finished windows, one JSON line each after a first line that says what they are of.

Written and flushed line by line, so that whatever ends the process loses at most the line it was
writing; sums are written so that they are read back to the last bit.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from llamapy.app.perplexity import Chunk
from llamapy.base.errors import UsageError

VERSION = 1
MOST = 1 << 28  # bytes of such a file that are read back


class ChunkFile:
    """Lines of finished windows; `done` are those that were there."""

    def __init__(self, file: BinaryIO, done: list[Chunk]) -> None:
        self._file, self.done = file, done

    def write(self, chunk: Chunk, ppl: float) -> None:
        self._line({**_fields(chunk), "ppl": ppl})

    def _line(self, fields: dict[str, Any]) -> None:
        self._file.write(json.dumps(fields).encode() + b"\n")
        self._file.flush()


@contextmanager
def chunk_file(path: str, about: dict[str, Any], *, resume: bool) -> Iterator[ChunkFile]:
    """`path`, new, or with `resume` continued after its last whole line. `about` is what windows
    depend on. UsageError for a file that is there without `resume`, one of other windows, one that
    is no such file."""
    head = {"schema_version": VERSION, "command": "perplexity", **about}
    target = Path(path)
    try:
        old = _read(target) if target.is_file() else b""
        if old and not resume:
            raise UsageError(f"{path}: is there already; --resume continues it")
        done, good = _parse(path, old, head)
        with open(target, "r+b" if target.is_file() else "wb") as f:
            if target.is_file():
                f.truncate(good)
                f.seek(good)
            out = ChunkFile(f, done)
            if not good:
                out._line(head)
            yield out
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}") from e


def _read(path: Path) -> bytes:
    if os.path.getsize(path) > MOST:
        raise UsageError(f"{path}: too large for a file of chunks")
    return path.read_bytes()


def _parse(path: str, raw: bytes, head: dict[str, Any]) -> tuple[list[Chunk], int]:
    """The windows in it, and the bytes up to the end of its last whole line."""
    lines = raw.split(b"\n")[:-1]
    if not lines:
        if raw and not json.dumps(head).encode().startswith(raw):
            raise UsageError(f"{path}: is no file of chunks")
        return [], 0
    first = _object(lines[0])
    if first is None or first.get("command") != "perplexity":
        raise UsageError(f"{path}: is no file of chunks")
    for key in dict.fromkeys((*head, *first)):
        if first.get(key) != head.get(key):
            raise UsageError(
                f"{path}: its chunks have {key} {first.get(key)}, these {head.get(key)}; "
                "give another --chunks-out"
            )
    done = [_chunk(path, i, line, head) for i, line in enumerate(lines[1:])]
    return done, sum(len(line) + 1 for line in lines)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _chunk(path: str, index: int, line: bytes, head: dict[str, Any]) -> Chunk:
    found = _object(line) or {}
    n, nll, nll2 = found.get("n"), found.get("nll"), found.get("nll2")
    numbers = isinstance(nll, float) and isinstance(nll2, float)
    n_scored = head["n_ctx"] - head["first_scored"]
    if not numbers or found.get("chunk") != index + 1 or n != n_scored or type(n) is not int:
        raise UsageError(f"{path}: line {index + 2} is not chunk {index + 1}; the file is damaged")
    assert isinstance(nll, float) and isinstance(nll2, float)
    if not (math.isfinite(nll) and math.isfinite(nll2)):
        raise UsageError(f"{path}: line {index + 2}: sums that are no numbers")
    return Chunk(index, n, nll, nll2)


def _fields(chunk: Chunk) -> dict[str, Any]:
    return {"chunk": chunk.index + 1, "n": chunk.n, "nll": chunk.nll, "nll2": chunk.nll2}
