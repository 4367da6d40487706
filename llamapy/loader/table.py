"""The tensor table of a GGUF: rows, where their data lies, and whether the file has it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from llamapy.base.types import BY_ID, Type
from llamapy.loader.cursor import CUT, Cursor
from llamapy.loader.words import shown

MAX_DIMS = 4
MAX_NAME_BYTES = 63
MAX_ELEMENTS = (1 << 63) - 1
REMOVED = {
    4: "q4_2", 5: "q4_3", 31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8", 36: "iq4_nl_4_4",
    37: "iq4_nl_4_8", 38: "iq4_nl_8_8",
}  # fmt: skip


class TensorInfo(NamedTuple):
    """One row. `ne` is filled up with ones; `offset` is absolute in the file of its shard."""

    name: str
    type: Type
    ne: tuple[int, int, int, int]
    n_dims: int
    offset: int
    n_bytes: int
    shard: int = 0

    @property
    def n_elements(self) -> int:
        return self.ne[0] * self.ne[1] * self.ne[2] * self.ne[3]


class Extent(NamedTuple):
    """`data_offset`: where the data starts; `data_end`: where the last tensor ends, unpadded."""

    data_offset: int
    data_end: int


def align(n: int, alignment: int) -> int:
    return (n + alignment - 1) & -alignment


def read_table(c: Cursor, n_tensors: int, alignment: int, tensors: dict[str, TensorInfo]) -> Extent:
    """Fill `tensors`. Their offsets must follow each other without gap or overlap, as ggml demands.
    When the table breaks off, the rows before that are kept, with offsets beyond the file's end."""
    data = c.size
    try:
        _rows(c, n_tensors, alignment, tensors)
        data = align(c.at, alignment)
    finally:
        for name, t in tensors.items():
            tensors[name] = t._replace(offset=data + t.offset)
    end = max((t.offset + t.n_bytes for t in tensors.values()), default=data)
    return Extent(data, end)


def _rows(c: Cursor, n_tensors: int, alignment: int, tensors: dict[str, TensorInfo]) -> None:
    places: dict[str, int] = {}
    next_: int | None = 0  # where the next tensor must lie; None once we cannot know
    for i in range(n_tensors):
        start = c.at
        info = _row(c, f"tensor {i + 1} of {n_tensors}")
        if info is None:
            next_ = None
            continue
        if info.name in places:
            c.say(
                f"tensor {shown(info.name)} stands twice: at byte {places[info.name]} and at byte "
                f"{start}"
            )
        if next_ is not None and info.offset != next_:
            kind = "a gap" if info.offset > next_ else "an overlap"
            c.say(
                f"tensor {shown(info.name)}: offset at byte {c.at - 8}: expected {next_}, right "
                f"after the tensor before it, found {info.offset}, {kind}; {CUT}"
            )
            next_ = None
        if next_ is not None:
            next_ += align(info.n_bytes, alignment)
        places.setdefault(info.name, start)
        tensors.setdefault(info.name, info)


def _row(c: Cursor, which: str) -> TensorInfo | None:
    """The next row; None when its type or shape is wrong, which has been reported."""
    start = c.at
    name = c.name(which)
    name_bytes = c.at - start - 8
    what = f"tensor {shown(name)}"
    if name_bytes > MAX_NAME_BYTES:
        c.say(
            f"{what}: name at byte {start}: expected at most {MAX_NAME_BYTES} bytes, found "
            f"{name_bytes}; {CUT}"
        )
    n_dims = c.u32(f"{what}: number of dimensions")
    if n_dims > MAX_DIMS:
        raise c.fatal(
            f"{what}: number of dimensions at byte {c.at - 4}: expected at most {MAX_DIMS}, found "
            f"{n_dims}; {CUT}"
        )
    at = c.take(8 * n_dims + 12, f"{what}: shape, type and offset")
    dims = struct.unpack_from(f"<{n_dims}Q", c.view, at)
    type_id, offset = struct.unpack_from("<IQ", c.view, at + 8 * n_dims)
    type_ = BY_ID.get(type_id)
    if type_ is None or not type_.in_file:
        gone = f" ({REMOVED[type_id]}, removed from the format)" if type_id in REMOVED else ""
        c.say(
            f"{what}: type at byte {at + 8 * n_dims}: expected a ggml type, found {type_id}{gone}; "
            + ("convert the model anew" if gone else CUT)
        )
        return None
    return _sized(c, what, at, name, dims, type_, offset)


def _sized(
    c: Cursor, what: str, at: int, name: str, dims: tuple[int, ...], type_: Type, offset: int
) -> TensorInfo | None:
    n = 1
    for i, d in enumerate(dims):
        n *= d
        if d > MAX_ELEMENTS or n > MAX_ELEMENTS:
            c.say(
                f"{what}: shape at byte {at + 8 * i}: expected fewer than 2^63 elements, found "
                f"{list(dims)}: too large; {CUT}"
            )
            return None
    ne = (*dims, 1, 1, 1, 1)[:4]
    if ne[0] % type_.block:
        c.say(
            f"{what}: shape at byte {at}: expected rows of a multiple of {type_.block} elements "
            f"({type_.name}), found {ne[0]}; {CUT}"
        )
        return None
    n_bytes = n // type_.block * type_.size_bytes
    if n_bytes > MAX_ELEMENTS or offset > MAX_ELEMENTS:
        c.say(
            f"{what}: shape at byte {at}: expected fewer than 2^63 bytes, found {n_bytes} at "
            f"offset {offset}: too large; {CUT}"
        )
        return None
    return TensorInfo(name, type_, (ne[0], ne[1], ne[2], ne[3]), len(dims), offset, n_bytes)


def check_extents(c: Cursor, tensors: dict[str, TensorInfo], data_end: int) -> None:
    """Every tensor's bytes are in the file; one message for all that are not."""
    beyond = [t for t in tensors.values() if t.offset + t.n_bytes > c.size]
    if beyond:
        first = min(beyond, key=lambda t: t.offset)
        c.say(
            f"tensor {shown(first.name)}: data: expected bytes {first.offset} to "
            f"{first.offset + first.n_bytes}, the file has {c.size}: {data_end - c.size} "
            f"bytes are missing, {len(beyond)} of {len(tensors)} tensors are affected; an "
            "incomplete download?"
        )
