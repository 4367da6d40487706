"""One GGUF file, mapped: its keys, its tensor table, and the bytes of each tensor as views.

    with GGUF.open("model.gguf") as gguf:
        gguf.get_str("general.architecture")
        gguf.data(gguf.tensors["output_norm.weight"])      # memoryview of the file

Opening reads the header, the keys and the table and nothing else. Arrays and views given out stay
valid after `close` for as long as someone holds them: the file is unmapped with the last of them.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from pathlib import Path

from llamapy.base.closing import Closing
from llamapy.base.errors import FileError
from llamapy.loader.cursor import CUT, Cursor
from llamapy.loader.header import Header, read_alignment, read_header, read_keys
from llamapy.loader.keys import Keyed, KeyTable
from llamapy.loader.sniff import MAGIC, what_is
from llamapy.loader.table import TensorInfo, align, check_extents, read_table
from llamapy.loader.words import one_line, shown

__all__ = ["GGUF", "TensorInfo"]


def _map(path: Path) -> tuple[mmap.mmap, int]:
    """Map a regular file read-only. A pipe or a device is refused before it is opened."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise FileError(f"{one_line(path)}: a directory, expected a GGUF file")
        if not stat.S_ISREG(mode):
            raise FileError(f"{one_line(path)}: not a regular file, expected a GGUF file")
        with open(path, "rb") as f:
            size = os.fstat(f.fileno()).st_size
            if size == 0:
                raise FileError(f"{one_line(path)}: {what_is(b'', 0)}")
            return mmap.mmap(f.fileno(), size, access=mmap.ACCESS_READ), size
    except (OSError, ValueError, OverflowError) as e:
        words = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise FileError(f"{one_line(path)}: cannot be opened: {words}") from None


class GGUF(Closing, Keyed):
    """`keys`: name to value (see KeyTable). `tensors`: name to TensorInfo, in the file's order.
    `problems`: what a lenient reader found wrong, empty for a strict one, which raises instead."""

    def __init__(self, path: Path, map_: mmap.mmap, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.header = Header()
        self.alignment = 32
        self.keys = KeyTable()
        self.tensors: dict[str, TensorInfo] = {}
        self.data_offset = 0
        self.data_end = 0  # end of the last tensor, without padding
        self.problems: list[str] = []
        self.from_file = False  # else the mapping is all there is
        self._map: mmap.mmap | None = map_
        self._view: memoryview | None = memoryview(map_)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, lenient: bool = False) -> GGUF:
        """Read a file of version 2 or 3. Raises FileError: what, where, expected and found.

        `lenient` collects faults in `problems` and keeps whatever could be read; only a file that
        cannot be opened at all, or has no GGUF header, still raises.
        """
        path = Path(path)
        map_, size = _map(path)
        out = cls.of(path, map_, size, lenient=lenient)
        out.from_file = True
        return out

    @classmethod
    def of(cls, path: Path, map_: mmap.mmap, size_bytes: int, *, lenient: bool = False) -> GGUF:
        """As `open`, of memory that holds such a file; `path` is what messages call it."""
        self = cls(path, map_, size_bytes)
        try:
            self._read(lenient)
        except BaseException:
            self.close()
            raise
        return self

    def _read(self, lenient: bool) -> None:
        def report(message: str) -> None:
            if not lenient:
                raise FileError(message)
            self.problems.append(message)

        c = Cursor(self.view, one_line(self.path), report)
        self.header = read_header(c)
        try:
            read_keys(c, self.header.n_keys, self.keys)
            self.alignment = read_alignment(c, self.keys)
            self.data_offset, self.data_end = read_table(
                c, self.header.n_tensors, self.alignment, self.tensors
            )
            check_extents(c, self.tensors, self.data_end)
            self._check_tail(c)
        except FileError as e:
            if not lenient:
                raise
            self.problems.append(str(e))
            self.data_offset = self.data_end = self.size_bytes

    def _check_tail(self, c: Cursor) -> None:
        """Files joined end to end: a second header stands right after the data."""
        for at in (self.data_end, align(self.data_end, self.alignment)):
            if c.view[at : at + 4] == MAGIC:
                c.say(
                    f"a second GGUF starts at byte {at}: files were joined end to end. Shards are "
                    "not joined by `cat`: keep them as separate files"
                )
                return

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def view(self) -> memoryview:
        """The whole file."""
        if self._view is None:
            raise ValueError(f"{self.path} is closed")
        return self._view

    @property
    def n_trailing(self) -> int:
        """Bytes after the last tensor and its padding."""
        return max(0, self.size_bytes - align(self.data_end, self.alignment))

    def data(self, info: TensorInfo) -> memoryview:
        """The bytes of a tensor, as they lie in the file."""
        end = info.offset + info.n_bytes
        if end > self.size_bytes:
            raise FileError(
                f"{one_line(self.path)}: tensor {shown(info.name)}: ends at byte {end}, the file "
                f"has {self.size_bytes}; {CUT}"
            )
        return self.view[info.offset : end]

    def prefetch(self) -> None:
        """Ask the system to read the data ahead."""
        if self._map is not None and hasattr(mmap, "MADV_WILLNEED"):
            start = self.data_offset // mmap.PAGESIZE * mmap.PAGESIZE
            if start < self.size_bytes:
                with contextlib.suppress(OSError):
                    self._map.madvise(mmap.MADV_WILLNEED, start, self.size_bytes - start)

    def forget(self, info: TensorInfo) -> None:
        """The bytes of a tensor will not be read again soon: the pages that are its alone
        leave this process. They come back from the file when touched."""
        page = mmap.PAGESIZE
        start, end = -(-info.offset // page) * page, (info.offset + info.n_bytes) // page * page
        if self._map is not None and self.from_file and start < end:
            with contextlib.suppress(OSError):
                self._map.madvise(mmap.MADV_DONTNEED, start, end - start)

    def close(self) -> None:
        """Give up the mapping; it goes at once unless someone still holds a view of it."""
        self.keys, self.tensors = KeyTable(), {}
        if self._view is not None:
            self._view.release()
            self._view = None
        if self._map is not None:
            with contextlib.suppress(BufferError):
                self._map.close()
            self._map = None
