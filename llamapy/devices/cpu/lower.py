"""Lowering: an allocated split becomes an array of records and a list of base addresses.

A record is first a row of 64-bit words in the order of `struct lp_node`, so that the whole plan is
one array conversion instead of hundreds of thousands of field assignments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import KernelError
from llamapy.base.types import CACHE_TYPES, F32, I32, X8
from llamapy.ffi.lib import MAX_SRC, best_kernel
from llamapy.ffi.record import NODE, SYNC
from llamapy.graph.ops import OPS
from llamapy.graph.tensor import Tensor

N_PARAMS = 12
_NO_OPERAND = (-1,) + (0,) * 10
_ATTENTION = ("flash_attn", "flash_attn_quant", "flash_attn_part")
# Sources of other types than f32: those that the key of the kernel names, and whole numbers.
_KEYED = {
    "mul_mat": (0,),
    "mul_mat_id": (0,),
    "get_rows": (0,),
    "set_rows": (0,),
    "rope_set_rows": (0,),
    "cpy": (0,),
    "repack": (0,),
    "highest_sum": (1,),
    **dict.fromkeys(_ATTENTION, (1, 2)),
}
_WHOLE = {
    "get_rows": (1,),
    "set_rows": (2,),
    "rope_set_rows": (2,),
    "rope": (1,),
    "rope_table": (0,),
    "take_ids": (1,),
    "highest": (1,),
    "highest_sum": (4,),
    "mul_mat_id": (2,),
    "add_id": (2,),
    **dict.fromkeys(_ATTENTION, (3, 4)),
    "ssm_conv": (3,),
    "ssm_scan": (6,),
    "gated_delta_net": (6,),
    "token_shift": (2,),
    "gated_linear_attn": (5,),
    "rwkv_wkv6": (6,),
    "rwkv_wkv7": (7,),
}
Span = tuple[int, int, int]  # slot, first byte, one past the last


def kernel_key(node: Tensor) -> tuple[str, str, str]:
    """(family, wtype, xtype) of the kernel a node needs: ARCHITECTURE.md, "Kernels"."""
    op = node.op
    if op in ("mul_mat", "mul_mat_id"):
        return op, node.src[0].type.name, node.src[1].type.name
    if op == "highest_sum":
        return op, node.src[1].type.name, node.src[2].type.name
    if op in _ATTENTION:
        k, v = node.src[1].type.name, node.src[2].type.name
        return (op, "kv", "kv") if k in CACHE_TYPES and v in CACHE_TYPES else (op, k, v)
    if op == "get_rows":
        return op, node.src[0].type.name, "f32"
    if op in ("set_rows", "cpy", "repack"):
        return op, node.type.name, node.src[1 if op == "set_rows" else 0].type.name
    return op, node.type.name, "f32"


def misread(node: Tensor) -> bool:
    """Whether a source has a type that the kernels of this op do not look at, but take for f32 (a
    norm's weight in f16) or for i32."""
    keyed, whole = _KEYED.get(node.op, ()), _WHOLE.get(node.op, ())
    return any(
        s.type is not (I32 if i in whole else F32)
        for i, s in enumerate(node.src)
        if i not in keyed and s.type is not X8
    )


class Kernels:
    """Kernel choices of one device, each asked for once: LLAMAPY_ISA counts when first needed."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], int | None] = {}

    def find(self, family: str, wtype: str, xtype: str) -> int | None:
        key = (family, wtype, xtype)
        if key not in self._found:
            self._found[key] = best_kernel(*key)
        return self._found[key]


@dataclass(slots=True)
class Plan:
    """Records, base addresses, and the node names that a fault is reported by. It keeps the buffers
    that it reads and writes, whoever else lets go of them."""

    nodes: npt.NDArray[Any]
    slots: npt.NDArray[np.uint64]
    names: list[str]
    buffers: list[Any]


@dataclass(slots=True)
class _Lowering:
    slots: dict[int, int] = field(default_factory=dict)
    bases: list[int] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)  # buffers, so that their ids stay theirs
    known: dict[Tensor, tuple[tuple[int, ...], Span]] = field(default_factory=dict)

    def operand(self, t: Tensor) -> tuple[tuple[int, ...], Span]:
        """Its words in a record, and the bytes it takes."""
        found = self.known.get(t)
        if found is not None:
            return found
        buffer, offset = t.home()
        if buffer is None:
            raise KernelError(f"{t.name}: has no memory; the plan is incomplete")
        slot = self.slots.get(id(buffer))
        if slot is None:
            slot = self.slots[id(buffer)] = len(self.bases)
            self.bases.append(buffer.address)
            self.keep.append(buffer)
        words = (slot, offset, t.type.id, *t.ne, *t.nb)
        found = self.known[t] = words, (slot, offset, offset + t.n_bytes)
        return found


def _params(node: Tensor) -> tuple[list[int], list[float]]:
    ints: list[int] = []
    floats: list[float] = []
    for name, kind in OPS[node.op].params:
        if kind == "float":
            floats.append(node.params[name])
        elif kind in ("int", "switch"):
            ints.append(node.params[name])
        elif kind.startswith("int*"):
            ints.extend(node.params[name])
    return ints, floats


def _meet(some: Iterable[Span], others: list[Span]) -> bool:
    """Whether a span of one has a byte of a span of the other."""
    for slot, lo, hi in some:
        for s, low, high in others:
            if s == slot and lo < high and low < hi:
                return True
    return False


@dataclass(slots=True)
class _Stage:
    """What the nodes since the last sync read and wrote."""

    reads: list[Span] = field(default_factory=list)
    writes: list[Span] = field(default_factory=list)

    def must_wait(self, reads: list[Span], writes: list[Span]) -> bool:
        """Whether a node cannot join; it then begins a stage of its own."""
        waits = _meet(writes, self.reads) or _meet(writes, self.writes) or _meet(reads, self.writes)
        if waits:
            self.reads, self.writes = [], []
        self.reads += reads
        self.writes += writes
        return waits


def _records(rows: list[list[int]], fps: list[list[float]]) -> npt.NDArray[Any]:
    """NODE[n] from the words of each up to its last operand, and its floats. Rows of one length are
    converted together: most have few of the operands there is room for."""
    words = np.empty((len(rows), NODE.itemsize // 8), np.int64)
    first = words.shape[1] - (1 + MAX_SRC) * len(_NO_OPERAND)
    words[:, first:] = _NO_OPERAND * (1 + MAX_SRC)
    by_length: dict[int, list[int]] = {}
    for i, row in enumerate(rows):
        by_length.setdefault(len(row), []).append(i)
    for n, at in by_length.items():
        words[at, :n] = [rows[i] for i in at]
    plan = words.view(NODE).reshape(len(rows))
    if rows:
        plan["fp"] = fps
    return plan


def lower(nodes: list[Tensor], kernels: Kernels, *, apart: bool = False) -> Plan:
    """Records for the nodes that compute (views are skipped), with LP_SYNC where one must wait;
    none must where the caller says that they are `apart`."""
    low, stage = _Lowering(), _Stage()
    rows: list[list[int]] = []
    fps: list[list[float]] = []
    names: list[str] = []
    for node in nodes:
        op = OPS.get(node.op)
        if op is None or op.view or node.n_elements == 0:
            continue
        kernel = kernels.find(*kernel_key(node))
        if kernel is None:
            raise KernelError(f"{node.name}: no kernel for {' '.join(kernel_key(node))}")
        operands = [low.operand(t) for t in (node, *node.src)]
        written, *read = [span for _, span in operands]
        writes = [written, *(read[i] for i in op.also_writes)]
        waits = not apart and stage.must_wait(read[1:] if op.writes_src else read, writes)
        flags = SYNC if waits else 0
        ints, floats = _params(node)
        row = [kernel, flags, len(node.src), 0, *ints, *[0] * (2 * N_PARAMS - len(ints))]
        for words, _ in operands:
            row += words
        rows.append(row)
        fps.append(floats + [0.0] * (N_PARAMS - len(floats)))
        names.append(node.name)
    return Plan(_records(rows, fps), np.array(low.bases, np.uint64), names, low.keep)
