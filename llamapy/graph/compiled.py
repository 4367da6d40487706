"""A compiled graph: splits with their programs, run in order as often as the caller likes."""

from __future__ import annotations

from typing import Any

from llamapy.graph.alloc import GraphAllocator
from llamapy.graph.cgraph import CGraph
from llamapy.graph.device import Device, Program
from llamapy.graph.placing import Copy, Placing, Split, Why
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor


class Compiled:
    """`inputs` are to be written before every run, `outputs` read after it (`synchronize` first
    where a device is asynchronous). Void once the scheduler had to open its memory anew."""

    def __init__(
        self,
        placing: Placing,
        graph: CGraph,
        order: list[Tensor],
        programs: list[list[Program]],
        allocator: GraphAllocator,
    ) -> None:
        self.devices: list[Device] = list(placing.devices)
        self.splits: list[Split] = placing.splits
        self.why: dict[Tensor, Why] = placing.where
        self.graph = graph
        self.order = order
        self.programs = programs  # [pipeline copy][split]
        self.inputs = [t for t in (*graph.leafs, *graph.nodes) if t.flags & INPUT]
        self.outputs = [t for t in graph.nodes if t.flags & OUTPUT]
        self.buffer_bytes = allocator.by_device(allocator.n_bytes())
        self._allocator = allocator
        self._version = allocator.version
        self._events: dict[tuple[int, int], Any] = {}  # (backend, pipeline copy) -> its last
        self._turn = 0

    @property
    def valid(self) -> bool:
        """Whether its memory is still what it was compiled for."""
        return self._version == self._allocator.version

    def run(self) -> None:
        """Compute the graph once. Raises what a device raises (KernelError names the node)."""
        assert self.valid, "compiled graph outlived its memory"
        c, self._turn = self._turn, (self._turn + 1) % len(self.programs)
        before: int | None = None
        for split, program in zip(self.splits, self.programs[c], strict=True):
            device = self.devices[split.backend]
            for copy in split.inputs:
                self._copy_in(device, split.backend, copy, c)
            if not split.inputs and before not in (None, split.backend):
                self._wait(device, before, c)  # its region may have been given to this split
            program.run()
            self._events[split.backend, c] = device.record_event()
            before = split.backend

    def chunk_of(self, buffer: Any) -> int:
        """Which of its pool's compute buffers this is; 0 for any other."""
        for chunks in self._allocator.buffers:
            for c, own in enumerate(chunks):
                if own is buffer:
                    return c
        return 0

    def synchronize(self) -> None:
        """Wait until every device has finished its runs."""
        for b in {split.backend for split in self.splits}:
            self.devices[b].synchronize()

    def _copy_in(self, device: Device, backend: int, copy: Copy, c: int) -> None:
        if copy.is_user_input:
            self._wait(device, backend, c)  # the run that last read this twin
        elif copy.rank == 0:
            self._wait(device, copy.src_backend, c)  # the split that computes it
        device.copy_in(copy.src, copy.dst[c])

    def _wait(self, device: Device, backend: int | None, c: int) -> None:
        event = self._events.get((backend, c)) if backend is not None else None
        if event is not None:
            device.wait_event(event)
