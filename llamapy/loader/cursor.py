"""A place in a mapped file that moves on only after a look at how much is left."""

from __future__ import annotations

import struct
from collections.abc import Callable

from llamapy.base.errors import FileError
from llamapy.loader.words import shown

MAX_STRING = 1 << 30
CUT = "the file is damaged or cut short"

_u32 = struct.Struct("<I").unpack_from
_u64 = struct.Struct("<Q").unpack_from


class Cursor:
    """`report` gets faults that leave the rest readable: it raises or collects (see `say`). A fault
    after which the next thing cannot be found is a FileError (see `fatal`)."""

    def __init__(self, view: memoryview, path: str, report: Callable[[str], None]) -> None:
        self.view = view
        self.size = len(view)
        self.at = 0
        self._path = path
        self._report = report

    @property
    def left(self) -> int:
        return self.size - self.at

    def say(self, what: str) -> None:
        self._report(f"{self._path}: {what}")

    def fatal(self, what: str) -> FileError:
        return FileError(f"{self._path}: {what}")

    def take(self, n: int, what: str) -> int:
        """Place of the next `n` bytes, which are then behind us."""
        at = self.at
        if n > self.size - at:
            raise self.fatal(
                f"{what} at byte {at}: expected {n} bytes, found {self.left} before the end of the "
                f"file; {CUT}"
            )
        self.at = at + n
        return at

    def u32(self, what: str) -> int:
        value: int = _u32(self.view, self.take(4, what))[0]
        return value

    def u64(self, what: str) -> int:
        value: int = _u64(self.view, self.take(8, what))[0]
        return value

    def string(self, what: str) -> memoryview:
        start = self.at
        n = self.u64(f"{what}: length")
        if n > MAX_STRING or n > self.left:
            raise self.fatal(
                f"{what}: length at byte {start}: expected at most {min(MAX_STRING, self.left)}, "
                f"found {n}; {CUT}"
            )
        at = self.take(n, what)
        return self.view[at : at + n]

    def name(self, what: str) -> str:
        """A string that must be UTF-8."""
        start = self.at
        raw = self.string(f"{what}: name")
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            name = str(raw, "utf-8", "backslashreplace")
            self.say(f"{what} at byte {start}: the name {shown(name)} is not UTF-8; {CUT}")
            return name
