"""The CPU as a backend: see graph/device.py."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import UsageError
from llamapy.devices.cpu.buffers import HOST, REPACK, HostBuffer
from llamapy.devices.cpu.lower import Kernels, Plan, kernel_key, lower, misread
from llamapy.devices.cpu.prepare import prepare
from llamapy.ffi import lib as ffi_lib
from llamapy.ffi import pool as ffi_pool
from llamapy.ffi.record import floats_of
from llamapy.graph.device import BufferType
from llamapy.graph.ops import OPS
from llamapy.graph.tensor import Tensor


class CpuProgram:
    """A split as a native plan, cut into tasks for as many threads as the device had when it was
    lowered."""

    def __init__(self, device: CpuDevice, plan: Plan) -> None:
        self._device = device
        self._plan = plan
        self._n_threads = device.n_threads
        self._scratch_bytes = ffi_pool.prepare(plan.nodes, self._n_threads, plan.names)

    def run(self) -> None:
        plan = self._plan
        self._device.pool.run(
            plan.nodes, plan.slots, self._scratch_bytes, self._n_threads, plan.names
        )

    @property
    def scratch_bytes(self) -> int:
        """Of all threads together, besides what the plan names."""
        return self._scratch_bytes * self._n_threads

    def records(self) -> list[tuple[npt.NDArray[Any], Callable[[], None]]]:
        """Each record (as an array of one) with a function that computes it alone, first none at
        all. In order they do what `run` does."""
        plan, pool = self._plan, self._device.pool
        n = len(plan.nodes)
        parts = [plan.nodes[:0], *(plan.nodes[i : i + 1] for i in range(n))]
        names = [[], *([name] for name in plan.names)]
        more = (self._scratch_bytes, self._n_threads)
        return [
            (part, partial(pool.run, part, plan.slots, *more, name))
            for part, name in zip(parts, names, strict=True)
        ]

    def watch(self) -> Iterator[tuple[str, npt.NDArray[np.float32] | None]]:
        """As `run`, record by record: the node's name, and what was written, where it is f32 and
        lies together."""
        for name, (record, run) in zip(self._plan.names, self.records()[1:], strict=True):
            run()
            yield name, floats_of(record[0]["dst"], self._plan.slots)


class CpuDevice:
    """Always present, last in priority. `n_threads` may change between graphs. Threads start when
    first needed; after `close` there are none."""

    name = "CPU"
    default_buft = HOST
    repack_buft = REPACK

    def __init__(self, max_threads: int = 1) -> None:
        self.description = f"CPU, {max_threads} threads"
        self.max_threads = max_threads
        self.n_threads = max_threads
        self._pool: ffi_pool.Pool | None = None
        self._closed = False
        self._kernels = Kernels()

    @property
    def repack_pays(self) -> bool:
        """Whether products with interleaved rows are any faster here."""
        kernel = self._kernels.find("mul_mat", "q4_0_r8", "x8")
        return kernel is not None and ffi_lib.load().kernels[kernel].isa != "scalar"

    @property
    def pool(self) -> ffi_pool.Pool:
        if self._closed:
            raise UsageError("the device is closed")
        if self._pool is None:
            self._pool = ffi_pool.Pool(self.max_threads)
        return self._pool

    def close(self) -> None:
        """End the threads, after the run that is on. Twice is fine."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def memory(self) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    def buffer_types(self) -> Sequence[BufferType]:
        return (HOST,)

    def alloc(self, buft: BufferType, n_bytes: int, usage: str) -> HostBuffer:
        return HostBuffer(buft, n_bytes, usage)

    def supports_op(self, node: Tensor) -> bool:
        op = OPS.get(node.op)
        if op is None or op.view:
            return True
        if misread(node):
            return False
        family, wtype, xtype = kernel_key(node)
        if node.op in ("mul_mat", "mul_mat_id") and node.src[0].type.quantised:
            xtype = "x8"
        return self._kernels.find(family, wtype, xtype) is not None

    def supports_buft(self, buft: BufferType) -> bool:
        return buft.host

    def wants_offload(self, node: Tensor) -> bool:
        return False

    def prepare(self, nodes: list[Tensor], keep: Collection[int] = ()) -> list[Tensor]:
        return prepare(nodes, keep, self.n_threads)

    def lower(self, nodes: list[Tensor], *, apart: bool = False) -> CpuProgram:
        """`apart`: no node touches what another one writes."""
        return CpuProgram(self, lower(nodes, self._kernels, apart=apart))

    def copy_in(self, src: Tensor, dst: Tensor) -> None:
        from_buffer, from_offset = src.home()
        to_buffer, to_offset = dst.home()
        to_buffer.write(to_offset, from_buffer.read(from_offset, src.n_bytes))

    def record_event(self) -> Any:
        return None

    def wait_event(self, event: Any) -> None:
        """Runs here are finished when `run` returns."""

    def synchronize(self) -> None:
        """Runs here are finished when `run` returns."""
