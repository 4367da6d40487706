"""A backend that computes with numpy in float64 or float32, on buffers of its own."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import KernelError
from llamapy.devices.ref.meaning import MEANING
from llamapy.devices.ref.memory import Array, RefBuffer, decode, encode, rows
from llamapy.devices.ref.rope import rope_apply
from llamapy.graph.device import BufferType
from llamapy.graph.lives import VIEWS
from llamapy.graph.ops import OPS
from llamapy.graph.tensor import Tensor


class RefProgram:
    """Nodes one after another; each result is rounded to its tensor's type. Where operands lie is
    settled here, not when it runs."""

    def __init__(self, nodes: list[Tensor], dtype: npt.DTypeLike) -> None:
        self._dtype = dtype
        self._bound = [
            (t, rows(t), [rows(s) for s in t.src])
            for t in nodes
            if t.op not in VIEWS and t.n_elements
        ]

    def run(self) -> None:
        for node, stored, operands in self._bound:
            try:
                with np.errstate(all="ignore"):
                    compute(node, stored, operands, self._dtype)
            except Exception as e:
                raise KernelError(f"{node.name} ({node.op}): {e}") from e


def compute(node: Tensor, stored: Array, operands: list[Array], dtype: npt.DTypeLike) -> None:
    """Store what a node's op means; all arrays are in stored form."""
    meaning = MEANING[node.op]
    types = [s.type for s in node.src]
    if OPS[node.op].writes_src:
        cache, new, ids, *table = operands
        values = decode(new, types[1], dtype)
        if table:
            values = rope_apply(node, values, *table).swapaxes(1, 2)
        meaning(node, cache, encode(values, types[0]), ids)
        return
    if node.op == "repack":  # bytes in another order
        stored[...] = meaning(node, *operands)
        return
    if node.op == "get_rows":
        result = decode(meaning(node, *operands), types[0], dtype)
    else:
        values = [decode(o, type_, dtype) for o, type_ in zip(operands, types, strict=True)]
        result = meaning(node, *values)
        for i in OPS[node.op].also_writes:
            operands[i][...] = encode(values[i], types[i])
    stored[...] = encode(result, node.type).reshape(stored.shape)


class RefDevice:
    """`reads_host`: whether operands in host memory of other devices need no copy. Without it every
    tensor that crosses over is copied, as to a card."""

    def __init__(
        self,
        dtype: npt.DTypeLike = np.float64,
        *,
        name: str = "ref",
        reads_host: bool = False,
    ) -> None:
        self.name = name
        self.description = f"numpy, {np.dtype(dtype).name}"
        self.default_buft = BufferType(name, name, alignment=64, max_bytes=1 << 62, host=False)
        self._dtype = dtype
        self._reads_host = reads_host

    def memory(self) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    def buffer_types(self) -> Sequence[BufferType]:
        return (self.default_buft,)

    def alloc(self, buft: BufferType, n_bytes: int, usage: str) -> RefBuffer:
        return RefBuffer(buft, n_bytes, usage)

    def supports_op(self, node: Tensor) -> bool:
        return node.op in MEANING or node.op in VIEWS

    def supports_buft(self, buft: BufferType) -> bool:
        return buft == self.default_buft or (self._reads_host and buft.host)

    def wants_offload(self, node: Tensor) -> bool:
        return False

    def prepare(self, nodes: list[Tensor], keep: Collection[int] = ()) -> list[Tensor]:
        return nodes

    def lower(self, nodes: list[Tensor]) -> RefProgram:
        return RefProgram(nodes, self._dtype)

    def copy_in(self, src: Tensor, dst: Tensor) -> None:
        if dst.n_bytes:
            from_buffer, from_offset = src.home()
            to_buffer, to_offset = dst.home()
            to_buffer.write(to_offset, from_buffer.read(from_offset, src.n_bytes))

    def record_event(self) -> Any:
        return None

    def wait_event(self, event: Any) -> None:
        """Runs here are finished when `run` returns."""

    def synchronize(self) -> None:
        """Runs here are finished when `run` returns."""
