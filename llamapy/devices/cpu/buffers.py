"""Host memory of the CPU device."""

from __future__ import annotations

import contextlib
import mmap
from typing import Any

from llamapy.base.errors import MemoryBudgetError
from llamapy.ffi.memory import address_of, anonymous
from llamapy.graph.device import BufferType

HOST = BufferType("CPU", "CPU", alignment=64, max_bytes=1 << 62, host=True)
REPACK = BufferType("CPU_REPACK", "CPU", alignment=64, max_bytes=1 << 62, host=True)


class HostBuffer:
    """Zeroed, page-aligned memory. Pages are taken from the system when first touched."""

    def __init__(self, buft: BufferType, n_bytes: int, usage: str) -> None:
        self.type = buft
        self.usage = usage
        self.n_bytes = n_bytes
        # Weights and the cache are read from end to end with every token: fewer pages to look up.
        # The cache is as large as its job needs.
        huge = buft is REPACK or usage == "any"
        try:
            self._map: mmap.mmap | None = anonymous(n_bytes, huge)
        except (OSError, OverflowError) as e:
            raise MemoryBudgetError(f"cannot open a {usage} buffer of {n_bytes} bytes: {e}") from e
        self._bytes = memoryview(self._map)
        self.address = address_of(self._map)

    def write(self, offset: int, data: Any) -> None:
        raw = memoryview(data)
        if raw.nbytes:
            self._bytes[offset : offset + raw.nbytes] = raw.cast("B")

    def read(self, offset: int, n_bytes: int) -> memoryview:
        return self._bytes[offset : offset + n_bytes]

    def free(self) -> None:
        """Give the memory back. A view that a caller still holds keeps it until it goes."""
        if self._map is None:
            return
        self._bytes.release()
        with contextlib.suppress(BufferError):  # then closed when the last view is gone
            self._map.close()
        self._map = None
        self.address = 0
