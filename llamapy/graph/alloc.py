"""The allocator: plans addresses for lives, opens the buffers behind them, hands out places.

`reserve` plans a worst case and opens or grows the buffers; `alloc` gives the tensors their places,
from a reserved table where one fits. Tensors that have a buffer already (weights, caches) are never
touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llamapy.base.errors import LlamapyError
from llamapy.graph.device import Buffer, BufferType, Device
from llamapy.graph.lives import Lives
from llamapy.graph.pack import Packed, pack

MAX_TABLES = 8


@dataclass(frozen=True, slots=True)
class Table:
    """Addresses for these lives, one `Packed` per pool."""

    lives: Lives
    pools: tuple[Packed, ...]


class GraphAllocator:
    """One pool per (device, buffer type). State: the open buffers, one per chunk of each pool, and
    the last tables. `version` changes when a buffer is opened anew: places handed out before are
    void then. `n_grown` counts those that no `reserve` had foreseen."""

    def __init__(self, targets: Sequence[tuple[Device, BufferType]]) -> None:
        self.targets = list(targets)
        self.buffers: list[list[Buffer]] = [[] for _ in targets]
        self.version = 0
        self.n_grown = 0
        self._tables: list[Table] = []

    def plan(self, lives: Lives) -> Table:
        """The reserved table that fits, or a new one."""
        for table in self._tables:
            if lives.fits(table.lives):
                return table
        packed = (pack(lives, p, buft.max_bytes) for p, (_, buft) in enumerate(self.targets))
        return Table(lives, tuple(packed))

    def reserve(self, lives: Lives) -> list[int]:
        """Make room for lives no larger than these. Returns the bytes planned per pool."""
        table = self.plan(lives)
        if table.lives is lives:
            self._tables = [table, *self._tables][:MAX_TABLES]
        self._open(table)
        return [p.n_bytes for p in table.pools]

    def needs_realloc(self, lives: Lives) -> bool:
        """Whether `alloc` would have to open memory."""
        return self._lacks(self.plan(lives))

    def alloc(self, lives: Lives, *, strict: bool = False) -> None:
        """Give every tensor its buffer and offset. Open buffers that are too small are grown: an
        error when `strict` and something had been reserved."""
        table = self.plan(lives)
        if self._lacks(table):
            if self.version:
                self.n_grown += 1
                if strict:
                    raise LlamapyError(f"unforeseen reallocation: {self._shortage(table)}")
            self._open(table)
        for k, t in enumerate(lives.tensors):
            pool = lives.pool[k]
            chunk, t.offset_bytes = table.pools[pool].spots.get(k, (0, 0))
            t.buffer = self.buffers[pool][chunk]

    def n_bytes(self) -> list[int]:
        """Open bytes per pool."""
        return [sum(b.n_bytes for b in chunks) for chunks in self.buffers]

    def by_device(self, per_pool: list[int]) -> dict[str, int]:
        """Bytes per pool, summed by the name of the device that owns it."""
        found: dict[str, int] = {}
        for (device, _), n in zip(self.targets, per_pool, strict=True):
            found[device.name] = found.get(device.name, 0) + n
        return found

    def free(self) -> None:
        for chunks in self.buffers:
            for buffer in chunks:
                buffer.free()
            chunks.clear()
        self._tables.clear()
        self.version += 1

    def _wanted(self, table: Table, pool: int) -> list[int]:
        """Bytes per chunk. A pool with nothing but empty tensors still gets a buffer to name."""
        peaks = table.pools[pool].peaks
        if not peaks and pool in table.lives.pool:
            return [self.targets[pool][1].alignment]
        return peaks

    def _lacks(self, table: Table) -> bool:
        for pool, chunks in enumerate(self.buffers):
            wanted = self._wanted(table, pool)
            if len(wanted) > len(chunks):
                return True
            if any(n > b.n_bytes for n, b in zip(wanted, chunks, strict=False)):
                return True
        return False

    def _shortage(self, table: Table) -> str:
        pairs = zip(self.targets, self.n_bytes(), table.pools, strict=True)
        return ", ".join(f"{t[1].name} {had} -> {p.n_bytes} bytes" for t, had, p in pairs)

    def _open(self, table: Table) -> None:
        for pool, (device, buft) in enumerate(self.targets):
            chunks = self.buffers[pool]
            for c, n_bytes in enumerate(self._wanted(table, pool)):
                if c < len(chunks):
                    if n_bytes <= chunks[c].n_bytes:
                        continue
                    chunks.pop(c).free()
                self.version += 1  # first: what was handed out is void even if there is no memory
                chunks.insert(c, device.alloc(buft, n_bytes, "compute"))
