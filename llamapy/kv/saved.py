"""One sequence as bytes: positions, K and V in position order, states.

    8 bytes   MAGIC
    u32       VERSION
    u32       length of the header
    header    JSON: what the model and the cache are like; it must be the same where it is loaded
    u32       CRC-32 of the body
    body      what the memory writes of the sequence

All little-endian. Nothing in it is believed before it is checked.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from llamapy.base.errors import FileError, UsageError
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import Ints, Memory

MAGIC = b"llamapyS"
VERSION = 1
MAX_HEADER = 1 << 22
_START = struct.Struct("<8sII")


class Reader:
    """Takes what is there piece by piece; FileError for more than that."""

    def __init__(self, data: bytes | bytearray | memoryview, n_ctx: int) -> None:
        self._data = memoryview(data).cast("B")
        self.n_ctx = n_ctx  # no position is beyond it

    @property
    def rest(self) -> memoryview:
        return self._data

    def take(self, n_bytes: int, what: str) -> memoryview:
        if n_bytes > len(self._data):
            raise FileError(
                f"saved sequence: {what} should take {n_bytes} bytes, {len(self._data)} are left"
            )
        taken, self._data = self._data[:n_bytes], self._data[n_bytes:]
        return taken

    def number(self, what: str, least: int, most: int) -> int:
        value: int
        (value,) = struct.unpack("<i", self.take(4, what))
        if not least <= value <= most:
            raise FileError(f"saved sequence: {what} must be {least} to {most}, found {value}")
        return value

    def positions(self, what: str) -> Ints:
        """Ascending ones, in the context."""
        n = self.number(f"the number of {what}", 0, self.n_ctx)
        pos = np.frombuffer(self.take(4 * n, what), "<i4").astype(np.int32)
        if n and (pos[0] < 0 or pos[-1] >= self.n_ctx or (np.diff(pos) <= 0).any()):
            raise FileError(f"saved sequence: {what} must ascend from 0 to {self.n_ctx - 1}")
        return pos


def write_positions(pos: Ints) -> bytes:
    return struct.pack("<i", len(pos)) + pos.astype("<i4").tobytes()


def read_cells(t: Tensor, cells: Ints) -> bytes:
    """Of K or V `[n, n_cells, n_head]`: for each head the rows of these cells."""
    raw = t.buffer.read(t.offset_bytes, t.n_bytes)
    rows = np.frombuffer(raw, np.uint8).reshape(t.ne[2], t.ne[1], t.nb[1])
    return rows[:, cells].tobytes()


def write_cells(t: Tensor, cells: Ints, raw: memoryview) -> None:
    """The opposite: the last rows of each head go to these cells. Cells that follow each other are
    written at once."""
    rows = np.frombuffer(raw, np.uint8).reshape(t.ne[2], len(raw) // (t.ne[2] * t.nb[1]), t.nb[1])
    rows = rows[:, rows.shape[1] - len(cells) :]
    starts = np.flatnonzero(np.diff(cells, prepend=-2) != 1).tolist()
    for head in range(t.ne[2]):
        for a, b in zip(starts, [*starts[1:], len(cells)], strict=True):
            at = t.offset_bytes + head * t.nb[2] + int(cells[a]) * t.nb[1]
            t.buffer.write(at, rows[head, a:b])


def _header(about: Mapping[str, Any], memory: Memory) -> bytes:
    return json.dumps({**about, **memory.describe()}, sort_keys=True).encode()


def save(memory: Memory, seq: int, about: Mapping[str, Any]) -> bytes:
    """A sequence of a memory; `about` says which model it is of."""
    header = _header(about, memory)
    body = b"".join(memory.save(seq))
    start = _START.pack(MAGIC, VERSION, len(header))
    return b"".join((start, header, struct.pack("<I", zlib.crc32(body)), body))


def load(
    memory: Memory,
    seq: int,
    data: bytes | bytearray | memoryview,
    about: Mapping[str, Any],
    n_ctx: int,
) -> None:
    """Fill an empty sequence. FileError for what is no saved sequence, or a damaged one; UsageError
    for one of another model or cache; ContextError when there is no room. Nothing has changed
    then."""
    reader = Reader(data, n_ctx)
    magic, version, n_header = _START.unpack(reader.take(_START.size, "the start"))
    if magic != MAGIC:
        raise FileError("saved sequence: this is none")
    if version != VERSION:
        raise FileError(f"saved sequence: format version {version}; this program knows {VERSION}")
    if n_header > MAX_HEADER:
        raise FileError(f"saved sequence: a header of {n_header} bytes is too long")
    header = reader.take(n_header, "the header")
    if header != (own := _header(about, memory)):
        raise _difference(bytes(header), own)
    (crc,) = struct.unpack("<I", reader.take(4, "the check sum"))
    if memory.pos_max(seq) >= 0:
        raise UsageError(f"sequence {seq} has tokens already: remove it before it is loaded")
    if crc != zlib.crc32(reader.rest):
        raise FileError("saved sequence: damaged, its check sum is wrong")
    loading = memory.plan_load(seq, reader)
    if len(reader.rest):
        raise FileError(f"saved sequence: {len(reader.rest)} bytes too many")
    loading.finish()


def _difference(found: bytes, own: bytes) -> FileError | UsageError:
    try:
        theirs = json.loads(found)
    except (ValueError, RecursionError) as e:
        return FileError(f"saved sequence: the header is no JSON: {str(e)[:80]}")
    if not isinstance(theirs, dict):
        return FileError("saved sequence: the header is no JSON object")
    for name, value in json.loads(own).items():
        if theirs.get(name) != value:
            return UsageError(
                f"saved sequence: it has {name} {str(theirs.get(name))[:60]}, and this context "
                f"{str(value)[:60]}"
            )
    return FileError("saved sequence: its header says more than this program knows")
