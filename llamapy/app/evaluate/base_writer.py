"""A base that is written, window by window, and gone on with where it was left (base.py says what
is in it)."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from llamapy.app.evaluate.base import BLOCK, MAGIC, MOST_HEADER, PREFIX, VERSION, piece_hash
from llamapy.app.evaluate.ledger import check_same, json_object
from llamapy.app.evaluate.perplexity import Chunk, Place
from llamapy.app.evaluate.windows import Windows
from llamapy.base.atomic import part_of, resumable_write
from llamapy.base.errors import LlamapyError, UsageError
from llamapy.ffi.kept import HEAD, Beside, Bytes, cut, keep, most_bytes
from llamapy.ffi.softmax import Rows, Workers


class BaseWriter:
    """A Witness that appends windows to `file`, in their order. `done`: those that are in it, with
    what they are of where there are any."""

    def __init__(self, file: BinaryIO, path: str, head: bytes, done: list[Chunk]) -> None:
        self._file, self._path = file, path
        self._head, self.done = head, done
        self._records: dict[int, list[Bytes]] = {}

    def see(
        self, rows: Rows, nll: Sequence[float], places: Sequence[Place], workers: Workers
    ) -> None:
        for (window, _), record in zip(places, keep(rows, nll, workers), strict=True):
            self._records.setdefault(window, []).append(record)

    def end(self, index: int) -> tuple[Beside, ...]:
        data = np.concatenate(self._records.pop(index))
        if not index:
            self._write(self._head)
        self._write(BLOCK.pack(len(data), zlib.crc32(data.data), index))
        self._write(data)
        return ()

    def _write(self, data: Any) -> None:
        rest = memoryview(data)
        try:
            while rest:  # past the file's buffer, so that what fails fails here
                rest = rest[os.write(self._file.fileno(), rest) :]
        except OSError as e:
            raise LlamapyError(f"cannot write to {self._path}: {e.strerror}") from e


@contextmanager
def base_writer(
    path: str, model: Any, w: Windows, about: dict[str, Any], *, resume: bool
) -> Iterator[BaseWriter]:
    """Into `path`, once all windows are there. With `resume` after those that an earlier run left,
    or all of them where it came to its end. UsageError for those of something else."""
    header = {
        **about,
        "n_chunks": w.n,
        "n_vocab": model.hparams.n_vocab,
        "text": piece_hash(model.tokenizer, w),
        "byte_order": sys.byteorder,
    }
    raw = json.dumps(header).encode()
    head = PREFIX.pack(MAGIC, VERSION, len(raw), zlib.crc32(raw), 0) + raw
    head += w.tokens.astype("<i4").tobytes()
    part, whole = part_of(path), Path(path)
    if resume and not part.exists() and whole.is_file():
        with open(whole, "rb") as f:
            done, end = _read(f, path, header, head, w)
            if len(done) < w.n or end != os.path.getsize(whole):
                raise UsageError(f"{path}: is damaged, and nothing to go on with")
            yield BaseWriter(f, path, head, done)
        return
    with resumable_write(path, resume=resume) as file:
        done = []
        if part.exists():
            with open(part, "rb") as f:
                done, end = _read(f, str(part), header, head, w)
            os.ftruncate(file.fileno(), end)
            os.lseek(file.fileno(), end, os.SEEK_SET)
        yield BaseWriter(file, path, head, done)


def _read(
    f: BinaryIO, name: str, header: dict[str, Any], head: bytes, w: Windows
) -> tuple[list[Chunk], int]:
    """The whole windows at the beginning of `f`, and where the last of them ends."""
    found = f.read(len(head))
    if found != head:
        if head.startswith(found):  # torn
            return [], 0
        _refuse(name, found, header)
    done = list[Chunk]()
    at = len(head)
    while len(done) < w.n:
        n = w.span(len(done)).n_scored
        records = _records(f, len(done), n, header["n_vocab"])
        if records is None:
            break
        nll = [float(r[: HEAD.itemsize].view(HEAD)["nll"][0]) for r in records]
        done.append(Chunk.of(len(done), nll))
        at = f.tell()
    return done, at if done else 0


def _records(f: BinaryIO, index: int, n: int, n_vocab: int) -> list[Bytes] | None:
    """Those of a window; None where they are not whole."""
    start = f.read(BLOCK.size)
    if len(start) < BLOCK.size:
        return None
    n_bytes, crc, number = BLOCK.unpack(start)
    if number != index or n_bytes > n * most_bytes(n_vocab):
        return None
    data = np.frombuffer(f.read(n_bytes), np.uint8)
    if len(data) < n_bytes or zlib.crc32(data.data) != crc:
        return None
    return cut(data, n, n_vocab)


def _refuse(name: str, found: bytes, header: dict[str, Any]) -> None:
    """Why these are not the windows to go on with."""
    if found.startswith(MAGIC) and len(found) >= PREFIX.size:
        n_bytes = min(PREFIX.unpack_from(found)[2], MOST_HEADER)
        old = json_object(found[PREFIX.size : PREFIX.size + n_bytes])
        check_same(name, old or {}, header, "--kl-base")
    raise UsageError(f"{name}: is no base that can be gone on with")
