"""The header and the keys of a GGUF, read in one pass.

After the GGUF specification; limits as ggml has them, except the alignment, which we cap at 1 MiB.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from llamapy.ffi.memory import scan_strings
from llamapy.loader.cursor import CUT, Cursor
from llamapy.loader.keys import KeyTable
from llamapy.loader.sniff import MAGIC, what_is
from llamapy.loader.values import (
    ARRAY,
    BOOL,
    SCALARS,
    STRING,
    UNPACK,
    NumberArray,
    StringArray,
    Text,
)
from llamapy.loader.words import shown

HEADER_BYTES = 24
MIN_KEY_BYTES = 13  # length, type, a value of one byte
MIN_TENSOR_BYTES = 24  # length, n_dims, type, offset
MAX_ARRAY = 1 << 30
DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 20


class Header(NamedTuple):
    version: int = 0
    n_tensors: int = 0
    n_keys: int = 0


def read_header(c: Cursor) -> Header:
    head = bytes(c.view[:512])
    if not head.startswith(MAGIC):
        raise c.fatal(what_is(head, c.size))
    if c.size < HEADER_BYTES:
        raise c.fatal(f"header: expected {HEADER_BYTES} bytes, found {c.size}; {CUT}")
    version, n_tensors, n_keys = struct.unpack_from("<IQQ", head, 4)
    _check_version(c, version)
    c.take(HEADER_BYTES, "header")
    for place, name, n, least in (
        (8, "tensor count", n_tensors, MIN_TENSOR_BYTES),
        (16, "key count", n_keys, MIN_KEY_BYTES),
    ):
        if n > c.left // least:
            c.say(
                f"{name} at byte {place}: expected at most {c.left // least} in the {c.left} bytes "
                f"after the header, found {n}; {CUT}"
            )
    return Header(version, n_tensors, n_keys)


def _check_version(c: Cursor, version: int) -> None:
    where = "version at byte 4: expected 2 or 3, found"
    if version == 0:
        raise c.fatal(f"{where} 0; {CUT}")
    if version & 0xFFFF == 0:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        raise c.fatal(
            f"{where} {version}: this is a big-endian file of version {swapped}; "
            "take or make a little-endian one"
        )
    if version == 1:
        raise c.fatal(f"{where} 1, which has lengths of 32 bits; convert the model anew")
    if version > 3:
        raise c.fatal(f"{where} {version}: made for a newer reader, or damaged")


def read_keys(c: Cursor, n_keys: int, keys: KeyTable) -> None:
    """Fill `keys`: what was read before a fault stays in it."""
    places: dict[str, int] = {}
    for i in range(n_keys):
        start = c.at
        what = f"key {i + 1} of {n_keys}"
        name = c.name(what)
        if not name:
            c.say(f"{what} at byte {start}: the name is empty; {CUT}")
        type_, value = _value(c, f"key {shown(name)}")
        if name in places:
            c.say(f"key {shown(name)} stands twice: at byte {places[name]} and at byte {start}")
        else:
            keys.add(name, type_, value)
            places[name] = start


def _value(c: Cursor, what: str) -> tuple[str, Any]:
    start = c.at
    type_id = c.u32(f"{what}: type")
    if type_id in SCALARS:
        type_, _, size = SCALARS[type_id]
        value = UNPACK[type_id](c.view, c.take(size, f"{what}: value"))[0]
        return type_, value != 0 if type_id == BOOL else value
    if type_id == STRING:
        return "string", Text(c.string(f"{what}: value"))
    if type_id == ARRAY:
        return _array(c, what)
    raise c.fatal(f"{what}: type at byte {start}: expected 0 to 12, found {type_id}; {CUT}")


def _array(c: Cursor, what: str) -> tuple[str, Any]:
    start = c.at
    item = c.u32(f"{what}: element type")
    count = c.u64(f"{what}: element count")
    if item != STRING and item not in SCALARS:
        nested = " (an array of arrays, which GGUF does not have)" if item == ARRAY else ""
        raise c.fatal(
            f"{what}: element type at byte {start}: expected a number, bool or string, found "
            f"{item}{nested}; {CUT}"
        )
    least = 8 if item == STRING else SCALARS[item][2]
    most = min(MAX_ARRAY, c.left // least)
    if count > most:
        raise c.fatal(
            f"{what}: element count at byte {start + 4}: expected at most {most} in the {c.left} "
            f"bytes left, found {count}; {CUT}"
        )
    if item == STRING:
        return "array[string]", _strings(c, what, count)
    at = c.take(count * least, what)
    return f"array[{SCALARS[item][0]}]", NumberArray(c.view[at : at + count * least], item)


def _strings(c: Cursor, what: str, count: int) -> StringArray:
    rest = c.view[c.at :]
    n = scan_strings(rest, count)
    if n < 0:
        i = -1 - n
        at = c.at + scan_strings(rest, i)
        raise c.fatal(
            f"{what}: string {i} of {count} at byte {at}: expected to end before byte {c.size}, "
            f"the end of the file; {CUT}"
        )
    at = c.take(n, what)
    return StringArray(c.view[at : at + n], count)


def read_alignment(c: Cursor, keys: KeyTable) -> int:
    key = "general.alignment"
    if key not in keys:
        return DEFAULT_ALIGNMENT
    value, type_ = keys[key], keys.type_of(key)
    good = type_ == "u32" and 1 <= value <= MAX_ALIGNMENT and value & (value - 1) == 0
    if not good:
        c.say(
            f"key {key}: expected a power of two from 1 to {MAX_ALIGNMENT} as u32, found "
            f"{shown(value)} as {type_}; {CUT}"
        )
        return DEFAULT_ALIGNMENT
    return int(value)
