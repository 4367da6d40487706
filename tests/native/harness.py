"""Runs one kernel row on numpy arrays: a plan of one node, made, prepared and run.

    x = operand(np.float32 array)                     # axes as numpy shows them: ne is the reverse
    w = packed(raw_bytes, "q4_1", ne=(256, 8))        # any ggml type, by bytes
    out = run(row.index, Case([w, x], result("f32", (8, 3))))

`Case` is also what the generators in cases_*.py return.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from llamapy.base.types import BY_NAME, Type
from llamapy.ffi.lib import KernelRow, load
from llamapy.ffi.pool import Pool, prepare
from llamapy.ffi.record import empty_nodes
from llamapy.graph.ops import OPS
from llamapy.graph.tensor import contiguous_nb

GUARD = 64  # at least so many bytes of pattern before the memory of every operand
_LIBC = ctypes.CDLL(None)
_FILL = 0xA5
_NUMPY = {
    "float32": "f32", "float16": "f16", "int32": "i32", "int64": "i64", "int8": "i8",
    "uint8": "i8", "uint16": "bf16",
}  # fmt: skip


@dataclass
class Operand:
    """`data` are the bytes of the memory it lies in, its first element at `offs`. align: of data's
    first byte."""

    type: Type
    ne: tuple[int, ...]
    nb: tuple[int, ...]
    data: np.ndarray
    offs: int = 0
    align: int = 4


@dataclass
class Case:
    """One node. `alias`: dst lies in the memory of that source (in-place, set_rows), with dst's own
    ne, nb and offs; else dst.data is what the memory holds before. `also`: sources that the kernel
    writes besides."""

    srcs: list[Operand]
    dst: Operand
    ip: Sequence[int] = ()
    fp: Sequence[float] = ()
    alias: int | None = None
    also: tuple[int, ...] = ()
    name: str = ""
    extra: dict[str, Any] = field(default_factory=dict)  # for a test of meaning; not used here


def _four(ne: Sequence[int]) -> tuple[int, int, int, int]:
    a, b, c, d = (*ne, 1, 1, 1, 1)[:4]
    return (a, b, c, d)


def operand(a: np.ndarray, align: int = 4) -> Operand:
    """A numpy array; its last axis is axis 0. A view keeps its strides and lies in a copy of the
    whole array it is a view of."""
    base = a
    while isinstance(base.base, np.ndarray):
        base = base.base
    if not base.flags.c_contiguous:
        base = a = np.ascontiguousarray(a)
    offs = a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    ne, nb = _four(a.shape[::-1]), list(a.strides[::-1]) or [a.itemsize]
    while len(nb) < 4:
        nb.append(nb[-1] * ne[len(nb) - 1])
    data = np.frombuffer(base.tobytes(), np.uint8)
    return Operand(BY_NAME[_NUMPY[a.dtype.name]], ne, tuple(nb), data, offs, align)


def packed(raw: bytes | np.ndarray, type_name: str, ne: Sequence[int], align: int = 4) -> Operand:
    """Contiguous bytes of any type."""
    type_, shape = BY_NAME[type_name], _four(ne)
    data = np.frombuffer(raw.tobytes() if isinstance(raw, np.ndarray) else raw, np.uint8)
    nb = contiguous_nb(type_, shape)
    assert len(data) == nb[3] * shape[3], (type_name, ne, len(data), nb)
    return Operand(type_, shape, nb, data, 0, align)


def result(type_name: str, ne: Sequence[int]) -> Operand:
    """A contiguous destination; its memory holds a pattern before."""
    shape = _four(ne)
    n_bytes = contiguous_nb(BY_NAME[type_name], shape)[3] * shape[3]
    return packed(np.full(n_bytes, _FILL, np.uint8), type_name, shape)


def params(op: str, **given: Any) -> tuple[list[int], list[float]]:
    """(ip, fp) of an op's parameters in the order of its row; all must be given."""
    ip: list[int] = []
    fp: list[float] = []
    for name, kind in OPS[op].params:
        value = given.pop(name)
        if kind == "float":
            fp.append(float(value))
        elif kind == "int":
            ip.append(int(value))
        elif kind.startswith("int*"):
            ip.extend(int(v) for v in value)
    assert not given, f"{op} has no parameters {sorted(given)}"
    return ip, fp


class _Memory:
    """An operand's bytes, the last of them at the end of a page; the next page cannot be read, so
    that a kernel which reads on dies on the spot. Before them lies a pattern."""

    def __init__(self, o: Operand) -> None:
        slack = -len(o.data) % o.align
        room = -(-(len(o.data) + slack + GUARD) // mmap.PAGESIZE) * mmap.PAGESIZE
        block = np.frombuffer(mmap.mmap(-1, room + mmap.PAGESIZE), np.uint8)
        failed = _LIBC.mprotect(ctypes.c_void_p(block.ctypes.data + room), mmap.PAGESIZE, 0)
        assert not failed, "mprotect"
        self.block = block[:room]
        self.block[:] = _FILL
        self.start, self.end = room - slack - len(o.data), room - slack
        self.bytes = self.block[self.start : self.end]
        self.bytes[:] = o.data
        self.address = block.ctypes.data + self.start

    def assert_guards(self, what: str) -> None:
        assert (self.block[: self.start] == _FILL).all(), f"{what}: wrote before its memory"
        assert (self.block[self.end :] == _FILL).all(), f"{what}: wrote behind its memory"


@cache
def pool(n_threads: int) -> Pool:
    return Pool(n_threads)


def _fill(rec: np.ndarray, o: Operand, slot: int) -> None:
    rec["slot"], rec["offs"], rec["type"] = slot, o.offs, o.type.id
    rec["ne"], rec["nb"] = _four(o.ne), o.nb


def run(kernel: int, case: Case, n_threads: int = 1, split_for: int | None = None) -> bytes:
    """All bytes of dst's memory after the kernel ran, then those of `case.also`. `split_for`: cut
    into tasks as for that many threads. Fails when a byte outside the operands' memory, or of a
    source that dst does not alias, has changed. Raises KernelError as Pool does."""
    memory = [_Memory(o) for o in case.srcs]
    memory.append(memory[case.alias] if case.alias is not None else _Memory(case.dst))
    nodes = empty_nodes(1)
    nodes["kernel"], nodes["n_src"] = kernel, len(case.srcs)
    nodes["ip"][0, : len(case.ip)] = case.ip
    nodes["fp"][0, : len(case.fp)] = case.fp
    for i, o in enumerate(case.srcs):
        _fill(nodes["src"][0, i], o, i)
    _fill(nodes["dst"][0], case.dst, len(case.srcs))
    slots = np.array([m.address for m in memory], np.uint64)
    row = load().kernels[kernel]
    scratch = prepare(nodes, split_for or n_threads, [str(row)])
    pool(n_threads).run(nodes, slots, scratch, n_threads, [str(row)])
    for i, m in enumerate(memory):
        m.assert_guards(f"{row} {case.name}: operand {i}")
        if i < len(case.srcs) and i != case.alias and i not in case.also:
            same = (m.bytes == case.srcs[i].data).all()
            assert same, f"{row} {case.name}: source {i} was changed"
    return b"".join(memory[i].bytes.tobytes() for i in (-1, *case.also))


def values(raw: bytes, dtype: Any, ne: Sequence[int]) -> np.ndarray:
    """Contiguous bytes as an array, axes as numpy shows them."""
    return np.frombuffer(raw, dtype).reshape(tuple(ne)[::-1])


def row_of(family: str, wtype: str = "f32", xtype: str = "f32", isa: str = "scalar") -> KernelRow:
    for k in load().kernels:
        if (k.family, k.wtype, k.xtype, k.isa) == (family, wtype, xtype, isa):
            return k
    raise LookupError(f"no kernel {family}-{wtype}-{xtype}-{isa}")
