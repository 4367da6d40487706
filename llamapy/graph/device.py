"""What a backend is, as the graph sees it. Implemented under `devices/`; nothing here computes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llamapy.graph.tensor import Tensor


@dataclass(frozen=True, slots=True)
class BufferType:
    """A kind of memory. `host`: the CPU can read and write it through a pointer."""

    name: str
    device: str  # name of the device it belongs to
    alignment: int
    max_bytes: int
    host: bool

    def size_of(self, tensor: Tensor) -> int:
        """Bytes that `tensor` needs here, before alignment."""
        return tensor.n_bytes


class Buffer(Protocol):
    """Opened memory. `usage` is 'weights', 'compute' or 'any'."""

    type: BufferType
    usage: str
    n_bytes: int

    def write(self, offset: int, data: Any) -> None:
        """Copy the bytes of a contiguous array-like in."""

    def read(self, offset: int, n_bytes: int) -> memoryview:
        """The bytes there: a view where the buffer is host memory, else a copy."""

    def free(self) -> None: ...


class Program(Protocol):
    """A split made ready to run on its device; addresses are taken when it is lowered."""

    def run(self) -> None:
        """Compute the split. Raises KernelError naming the node at fault."""


class Device(Protocol):
    """One backend. Listed by priority; the CPU is last and always present."""

    name: str
    description: str
    default_buft: BufferType

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes."""

    def buffer_types(self) -> Sequence[BufferType]: ...

    def alloc(self, buft: BufferType, n_bytes: int, usage: str) -> Buffer: ...

    def supports_op(self, node: Tensor) -> bool: ...

    def supports_buft(self, buft: BufferType) -> bool:
        """Whether ops here may read operands that live in `buft` without a copy."""

    def wants_offload(self, node: Tensor) -> bool:
        """Whether a node with host weights is worth running here (large batch)."""

    def prepare(self, nodes: list[Tensor], keep: Collection[int] = ()) -> list[Tensor]:
        """Rewrite a split for this device before allocation (insert, split or fuse nodes). `nodes`
        are those of the split, views among them; returned nodes are in execution order, with or
        without views. Every OUTPUT, and every tensor whose id is in `keep` (it is read outside of
        the split), keeps its identity and is still computed."""

    def lower(self, nodes: list[Tensor]) -> Program:
        """Make an allocated split ready to run."""

    def copy_in(self, src: Tensor, dst: Tensor) -> None:
        """Copy a tensor that lives on another device into `dst`, which lives here. When `src` is in
        host memory its bytes have been read on return: the user may write its next input."""

    def record_event(self) -> Any: ...

    def wait_event(self, event: Any) -> None: ...

    def synchronize(self) -> None: ...
