"""Where the tensors of a memory lie."""

from __future__ import annotations

from collections.abc import Iterable

from llamapy.graph.device import Buffer, BufferType, Device
from llamapy.graph.tensor import Tensor
from llamapy.kv.cells import pad


class Places:
    """One buffer per buffer type, opened once its size is known; tensors lie in the order given."""

    def __init__(self, tensors: Iterable[tuple[Device, Tensor]]) -> None:
        self._buffers: list[Buffer] = []
        todo: dict[BufferType, tuple[Device, list[Tensor]]] = {}
        for device, t in tensors:
            todo.setdefault(device.default_buft, (device, []))[1].append(t)
        try:
            for buft, (device, there) in todo.items():
                self._open(buft, device, there)
        except BaseException:
            self.free()
            raise

    def _open(self, buft: BufferType, device: Device, tensors: list[Tensor]) -> None:
        offset = 0
        for t in tensors:
            t.offset_bytes = offset
            offset += pad(t.n_bytes, buft.alignment)
        buffer = device.alloc(buft, offset, "any")
        self._buffers.append(buffer)
        for t in tensors:
            t.buffer = buffer

    @property
    def n_bytes(self) -> int:
        return sum(b.n_bytes for b in self._buffers)

    def free(self) -> None:
        for buffer in self._buffers:
            buffer.free()
        self._buffers = []
