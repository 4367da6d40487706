"""A backend that opens no memory and computes nothing, with every answer of the protocol open to
configuration. Several of them stand in for a machine in scheduler tests and in dry plans."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from llamapy.base.errors import MemoryBudgetError
from llamapy.graph.device import BufferType
from llamapy.graph.tensor import Tensor

Log = list[tuple[Any, ...]]
UNLIMITED = 1 << 62


class NullBuffer:
    """Has a size and no bytes: what is written is recorded and dropped, what is read is zero."""

    def __init__(self, log: Log, buft: BufferType, n_bytes: int, usage: str) -> None:
        self.type = buft
        self.usage = usage
        self.n_bytes = n_bytes
        self.freed = False
        self._log = log

    def write(self, offset: int, data: Any) -> None:
        n_bytes = memoryview(data).nbytes
        assert 0 <= offset <= offset + n_bytes <= self.n_bytes, (offset, n_bytes, self.n_bytes)
        self._log.append(("write", self.type.name, offset, n_bytes))

    def read(self, offset: int, n_bytes: int) -> memoryview:
        assert 0 <= offset <= offset + n_bytes <= self.n_bytes, (offset, n_bytes, self.n_bytes)
        self._log.append(("read", self.type.name, offset, n_bytes))
        return memoryview(bytes(n_bytes))

    def free(self) -> None:
        self.freed = True
        self._log.append(("free", self.type.name, self.n_bytes))


class NullProgram:
    def __init__(self, device: NullDevice, nodes: list[Tensor]) -> None:
        self.nodes = nodes
        self._device = device
        # Where each operand was when the split was lowered, as a real plan would keep it.
        self.places = {t.name: [s.home() for s in t.src] for t in nodes}

    def run(self) -> None:
        self._device.log.append(("run", self._device.name, [t.name for t in self.nodes]))


class NullDevice:
    """`runs` decides which nodes are supported (all by default), `reads` which foreign buffer types
    need no copy (none; host memory with `host=True`), `offloads` which nodes with host weights are
    wanted (none). Give several devices one `log` to see the order of what happens on all of them.
    """

    def __init__(
        self,
        name: str = "null",
        *,
        host: bool = False,
        alignment: int = 64,
        max_bytes: int = UNLIMITED,
        memory_bytes: int = UNLIMITED,
        runs: Callable[[Tensor], bool] = lambda node: True,
        reads: Callable[[BufferType], bool] | None = None,
        offloads: Callable[[Tensor], bool] = lambda node: False,
        log: Log | None = None,
    ) -> None:
        self.name = name
        self.description = "computes nothing"
        self.default_buft = BufferType(name, name, alignment, max_bytes, host)
        self.log: Log = log if log is not None else []
        self.memory_bytes = memory_bytes
        self.buffers: list[NullBuffer] = []
        self._runs = runs
        self._reads = reads
        self._offloads = offloads
        self._n_events = 0

    def memory(self) -> tuple[int, int]:
        used = sum(b.n_bytes for b in self.buffers if not b.freed)
        return self.memory_bytes - used, self.memory_bytes

    def buffer_types(self) -> Sequence[BufferType]:
        return (self.default_buft,)

    def alloc(self, buft: BufferType, n_bytes: int, usage: str) -> NullBuffer:
        if n_bytes > self.memory()[0]:
            raise MemoryBudgetError(
                f"{self.name}: cannot open a {usage} buffer of {n_bytes} bytes: "
                f"{self.memory()[0]} of {self.memory_bytes} bytes are free"
            )
        self.log.append(("alloc", buft.name, n_bytes, usage))
        self.buffers.append(NullBuffer(self.log, buft, n_bytes, usage))
        return self.buffers[-1]

    def supports_op(self, node: Tensor) -> bool:
        return self._runs(node)

    def supports_buft(self, buft: BufferType) -> bool:
        if buft == self.default_buft or (self._reads is not None and self._reads(buft)):
            return True
        return buft.host and self.default_buft.host

    def wants_offload(self, node: Tensor) -> bool:
        return self._offloads(node)

    def prepare(self, nodes: list[Tensor], keep: Collection[int] = ()) -> list[Tensor]:
        self.log.append(("prepare", self.name, [t.name for t in nodes], len(keep)))
        return nodes

    def lower(self, nodes: list[Tensor]) -> NullProgram:
        return NullProgram(self, nodes)

    def copy_in(self, src: Tensor, dst: Tensor) -> None:
        self.log.append(("copy", self.name, src.name, dst.name))

    def record_event(self) -> tuple[str, int]:
        self._n_events += 1
        self.log.append(("record", self.name, self._n_events))
        return self.name, self._n_events

    def wait_event(self, event: Any) -> None:
        self.log.append(("wait", self.name, event))

    def synchronize(self) -> None:
        self.log.append(("synchronize", self.name))
