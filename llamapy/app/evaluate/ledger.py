"""A file of what is done, one JSON line each after a first line that says what they are of.

Written and flushed line by line, so that whatever ends the process loses at most the line it was
writing; floats are written so that they are read back to the last bit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

from llamapy.app.evaluate.perplexity import Chunk
from llamapy.app.evaluate.windows import Windows
from llamapy.base.errors import LlamapyError, UsageError
from llamapy.ffi.kept import Beside

VERSION = 1
MOST = 1 << 30  # bytes of such a file that are read back
T = TypeVar("T")
# From what a line says to the thing, None where it is not that of this number (from 0).
Parse = Callable[[int, dict[str, Any]], T | None]


class Ledger(Generic[T]):
    """Lines of what is done; `done` are those that were there."""

    def __init__(self, path: str, file: BinaryIO, done: list[T]) -> None:
        self._path, self._file, self.done = path, file, done

    def write(self, fields: dict[str, Any]) -> None:
        rest = memoryview(json.dumps(fields, allow_nan=False).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError as e:
            raise LlamapyError(f"cannot write to {self._path}: {e.strerror}") from e


@contextmanager
def ledger(
    path: str, about: dict[str, Any], parse: Parse[T], *, resume: bool
) -> Iterator[Ledger[T]]:
    """`path`, new, or with `resume` continued after its last whole line. `about` is what lines
    depend on. UsageError for a file that is there without `resume`, one of something else, one that
    is no such file."""
    head = {"schema_version": VERSION, "command": "perplexity", **about}
    target = Path(path)
    regular = target.is_file() or not target.exists()
    old = _read(target) if regular and target.exists() else b""
    if old and not resume:
        raise UsageError(f"{path}: is there already; --resume continues it")
    done, good = _parse(path, old, head, parse)
    try:
        file = open(target, "r+b" if old else "wb", buffering=0)  # noqa: SIM115
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}") from e
    with file:
        if old:
            file.truncate(good)
            file.seek(good)
        out = Ledger(path, file, done)
        if not good:
            out.write(head)
        yield out


def _read(path: Path) -> bytes:
    try:
        if os.path.getsize(path) > MOST:
            raise UsageError(f"{path}: too large for a file of chunks")
        return path.read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from e


def _parse(path: str, raw: bytes, head: dict[str, Any], parse: Parse[T]) -> tuple[list[T], int]:
    """What is in it, and the bytes up to the end of its last whole line."""
    lines = raw.split(b"\n")[:-1]
    if not lines:
        if raw and not json.dumps(head).encode().startswith(raw):
            raise UsageError(f"{path}: is no file of chunks")
        return [], 0
    first = json_object(lines[0])
    if first is None or first.get("command") != "perplexity":
        raise UsageError(f"{path}: is no file of chunks")
    check_same(path, first, head, "--chunks-out")
    done = []
    for i, line in enumerate(lines[1:]):
        found = parse(i, json_object(line) or {})
        if found is None:
            raise UsageError(f"{path}: line {i + 2} is not number {i + 1}; the file is damaged")
        done.append(found)
    return done, sum(len(line) + 1 for line in lines)


def check_same(path: object, old: dict[str, Any], new: dict[str, Any], flag: str) -> None:
    """UsageError that names what first differs between what a file says of its chunks and those
    that are to be added."""
    for key in dict.fromkeys((*new, *old)):
        if old.get(key) != new.get(key):
            raise UsageError(
                f"{path}: its chunks have {key} {old.get(key)}, these {new.get(key)}; "
                f"give another {flag}"
            )


def json_object(line: bytes) -> dict[str, Any] | None:
    """None for what is none."""
    try:
        found = json.loads(line, parse_constant=lambda name: None)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def chunk_fields(chunk: Chunk, ppl: float) -> dict[str, Any]:
    """A window's line, with the perplexity so far."""
    out: dict[str, Any] = {"chunk": chunk.index + 1, "n": chunk.n}
    out |= {"nll": chunk.nll, "nll2": chunk.nll2, "ppl": ppl if ppl < float("inf") else None}
    if chunk.beside:
        out["tokens"] = {
            "nll": chunk.each,
            "base_nll": [b.nll for b in chunk.beside],
            "kl": [b.kl for b in chunk.beside],
            "same_top": [int(b.same_top) for b in chunk.beside],
        }
    return out


def chunk_parser(w: Windows, compared: bool) -> Parse[Chunk]:
    """Reads the lines of these windows; `compared` with a base."""

    def parse(index: int, found: dict[str, Any]) -> Chunk | None:
        n = w.span(index).n_scored
        nll, nll2 = found.get("nll"), found.get("nll2")
        if found.get("chunk") != index + 1 or found.get("n") != n:
            return None
        if not isinstance(nll, float) or not isinstance(nll2, float):
            return None
        if not compared:
            return Chunk(index, n, nll, nll2)
        each = _beside(found.get("tokens"), n)
        return None if each is None else Chunk(index, n, nll, nll2, *each)

    return parse


def _beside(said: Any, n: int) -> tuple[tuple[float, ...], tuple[Beside, ...]] | None:
    """The values of every token."""
    if not isinstance(said, dict):
        return None
    each, base, kl, same = (said.get(x) for x in ("nll", "base_nll", "kl", "same_top"))
    if not all(isinstance(v, list) and len(v) == n for v in (each, base, kl, same)):
        return None
    assert each and base and kl and same
    if not all(type(x) is float for x in (*each, *base, *kl)) or not set(same) <= {0, 1}:
        return None
    together = zip(base, kl, same, strict=True)
    return tuple(each), tuple(Beside(b, k, bool(s)) for b, k, s in together)
