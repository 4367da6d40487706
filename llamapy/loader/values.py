"""GGUF values: the type table, and arrays that stay in the file until an element is asked for."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, overload

from llamapy.ffi.memory import scan_strings
from llamapy.loader.words import text

# id: (name, struct letter, bytes). A bool is one byte, 0 or not.
SCALARS: dict[int, tuple[str, str, int]] = {
    0: ("u8", "B", 1),
    1: ("i8", "b", 1),
    2: ("u16", "H", 2),
    3: ("i16", "h", 2),
    4: ("u32", "I", 4),
    5: ("i32", "i", 4),
    6: ("f32", "f", 4),
    7: ("bool", "b", 1),
    10: ("u64", "Q", 8),
    11: ("i64", "q", 8),
    12: ("f64", "d", 8),
}
BOOL, STRING, ARRAY = 7, 8, 9
UNPACK = {id_: struct.Struct("<" + letter).unpack_from for id_, (_, letter, _) in SCALARS.items()}


class NumberArray(Sequence[Any]):
    """Numbers or bools in the file. `view` is a typed memoryview of them (bools: signed bytes), so
    `numpy.asarray(a.view)` copies nothing; `type` is the GGUF name of an element."""

    __slots__ = ("type", "view")

    def __init__(self, raw: memoryview, type_id: int) -> None:
        self.type, letter, size = SCALARS[type_id]
        if sys.byteorder == "big" and size > 1:
            swapped = array(letter, raw.tobytes())
            swapped.byteswap()
            self.view = memoryview(swapped)
        else:
            self.view = raw.cast(letter)  # type: ignore[call-overload]

    def __len__(self) -> int:
        return len(self.view)

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> list[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            part = self.view[i].tolist()
            return [v != 0 for v in part] if self.type == "bool" else part
        return self.view[i] != 0 if self.type == "bool" else self.view[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        return self[:]

    def __repr__(self) -> str:
        return f"<{len(self)} x {self.type}>"


class StringArray(Sequence[bytes]):
    """Strings in the file, as bytes. String i is `raw[offsets[i] : offsets[i + 1] - 8]`; `offsets`,
    an array('q') of len + 1, is made when first asked for."""

    __slots__ = ("_count", "_offsets", "raw")

    def __init__(self, raw: memoryview, count: int) -> None:
        self.raw = raw  # starts with the length of string 0; has been scanned once
        self._count = count
        self._offsets: array[int] | None = None

    @property
    def offsets(self) -> array[int]:
        if self._offsets is None:
            offsets = array("q", bytes(8 * (self._count + 1)))
            if scan_strings(self.raw, self._count, offsets) != len(self.raw):
                raise RuntimeError("a string array changed under the reader")
            self._offsets = offsets
        return self._offsets

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, i: int) -> bytes: ...
    @overload
    def __getitem__(self, i: slice) -> list[bytes]: ...
    def __getitem__(self, i: int | slice) -> bytes | list[bytes]:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self._count))]
        if i < 0:
            i += self._count
        if not 0 <= i < self._count:
            raise IndexError(f"string {i} of {self._count}")
        at = self.offsets
        return bytes(self.raw[at[i] : at[i + 1] - 8])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.tolist())

    def tolist(self) -> list[bytes]:
        """All of them; the quick way to a whole vocabulary."""
        blob = bytes(self.raw)
        return [blob[a : b - 8] for a, b in pairwise(self.offsets.tolist())]

    def __repr__(self) -> str:
        return f"<{len(self)} x string>"


class Text:
    """A string value that is decoded when asked for."""

    __slots__ = ("raw",)

    def __init__(self, raw: memoryview) -> None:
        self.raw = raw

    def __str__(self) -> str:
        return text(self.raw)
