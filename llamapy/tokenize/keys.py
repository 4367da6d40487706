"""What this folder asks of an opened file, and string arrays as one block of bytes.

The file reader lies above this folder, so it is known here by its getters only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from llamapy.base.errors import FileError

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int64]


class Keys(Protocol):
    """The getters of an opened GGUF. A wrong type is a FileError."""

    @property
    def keys(self) -> Any: ...
    def get_int(self, key: str, default: int | None = ...) -> int: ...
    def get_bool(self, key: str, default: bool | None = ...) -> bool: ...
    def get_str(self, key: str, default: str | None = ...) -> str: ...
    def get_array(self, key: str) -> Sequence[Any]: ...


class MapKeys:
    """Keys held in memory: for a vocabulary that comes from no file. Strings may be str or
    bytes.
    """

    def __init__(self, keys: Mapping[str, Any]) -> None:
        self.keys = dict(keys)

    def _get(self, key: str, default: Any) -> Any:
        value = self.keys.get(key, default)
        if value is None:
            raise FileError(f"key '{key}' is missing")
        return value

    def get_int(self, key: str, default: int | None = None) -> int:
        return int(self._get(key, default))

    def get_bool(self, key: str, default: bool | None = None) -> bool:
        return bool(self._get(key, default))

    def get_str(self, key: str, default: str | None = None) -> str:
        return str(self._get(key, default))

    def get_array(self, key: str) -> Sequence[Any]:
        found: Sequence[Any] = self._get(key, None)
        return found


@dataclass(frozen=True, slots=True)
class Strings:
    """`n` byte strings in one block: string `i` is `block[start[i] : start[i] + size[i]]`.

    Independent of the file: the block is a copy, so the file may be closed.
    """

    block: bytes
    start: Ints
    size: Ints

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, i: int) -> bytes:
        start = int(self.start[i])
        return self.block[start : start + int(self.size[i])]

    @property
    def array(self) -> Bytes:
        """The block as uint8 `[len(block)]`."""
        return np.frombuffer(self.block, np.uint8)

    def to_list(self) -> list[bytes]:
        block = self.block
        starts, ends = self.start.tolist(), (self.start + self.size).tolist()
        return [block[a:b] for a, b in zip(starts, ends, strict=True)]

    def joined(self) -> bytes:
        """All strings with a line feed between each two, made without cutting them apart."""
        if not len(self):
            return b""
        ends = np.cumsum(self.size + 1)  # in the result, each one's line feed included
        at = np.arange(ends[-1]) + np.repeat(self.start - (ends - 1 - self.size), self.size + 1)
        at[ends - 1] = 0
        if not self.block:
            return b"\n" * (len(self) - 1)
        out = self.array[at]
        out[ends - 1] = ord("\n")
        joined: bytes = out[:-1].tobytes()
        return joined

    def first_bytes(self) -> Bytes:
        """First byte of each string, 0 for an empty one: uint8 `[n]`."""
        if not self.block:
            return np.zeros(len(self), np.uint8)
        at = np.minimum(self.start, len(self.block) - 1)
        return np.where(self.size > 0, self.array[at], 0).astype(np.uint8)


def strings(values: Sequence[bytes | str]) -> Strings:
    """`values` as one block.

    A file's own string array is taken in bulk: string i of it is `raw[offsets[i] : offsets[i + 1] -
    8]`, since GGUF writes eight bytes of length before each string.
    """
    raw, offsets = getattr(values, "raw", None), getattr(values, "offsets", None)
    if raw is not None and offsets is not None:
        at = np.array(offsets, np.int64)
        return Strings(bytes(raw), at[:-1], at[1:] - 8 - at[:-1])
    texts = [v.encode() if isinstance(v, str) else bytes(v) for v in values]
    size = np.fromiter(map(len, texts), np.int64, len(texts))
    return Strings(b"".join(texts), np.cumsum(size) - size, size)


def numbers(values: Sequence[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A file's number array (its `view`) or any sequence as an array of `dtype`: a copy."""
    return np.array(getattr(values, "view", values)).astype(dtype)
