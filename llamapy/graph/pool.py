"""Offsets in memory that is not opened yet: what a running allocator hands out and takes back."""

from __future__ import annotations

from bisect import bisect_left

MAX_CHUNKS = 16
UNBOUNDED = 1 << 62


class Chunk:
    """Free blocks as two lists sorted by offset. The last block reaches to the end of the chunk."""

    __slots__ = ("high_water", "offsets", "sizes")

    def __init__(self, n_bytes: int) -> None:
        self.offsets = [0]
        self.sizes = [n_bytes]
        self.high_water = 0

    def take(self, block: int, size: int) -> int:
        offset = self.offsets[block]
        if self.sizes[block] == size:
            del self.offsets[block], self.sizes[block]
        else:
            self.offsets[block] += size
            self.sizes[block] -= size
        self.high_water = max(self.high_water, offset + size)
        return offset

    def give(self, offset: int, size: int) -> None:
        offsets, sizes = self.offsets, self.sizes
        i = bisect_left(offsets, offset)
        before = i > 0 and offsets[i - 1] + sizes[i - 1] == offset
        after = i < len(offsets) and offset + size == offsets[i]
        if before and after:
            sizes[i - 1] += size + sizes[i]
            del offsets[i], sizes[i]
        elif before:
            sizes[i - 1] += size
        elif after:
            offsets[i], sizes[i] = offset, sizes[i] + size
        else:
            offsets.insert(i, offset)
            sizes.insert(i, size)


class Pool:
    """The memory of one buffer type, in chunks of at most `max_bytes` each. A tensor larger than
    that gets a chunk of its own size, and the last chunk allowed is unbounded: whether the device
    can open it is the device's to say."""

    def __init__(self, max_bytes: int = UNBOUNDED) -> None:
        self.max_bytes = max_bytes
        self.chunks: list[Chunk] = []

    @property
    def peaks(self) -> list[int]:
        """Bytes that each chunk must have."""
        return [c.high_water for c in self.chunks]

    def alloc(self, size: int) -> tuple[int, int]:
        """(chunk, offset) for `size` > 0 bytes: best fit among the blocks between allocations, else
        the end of a chunk, else a new chunk."""
        found = self._best_fit(size)
        if found is None:
            found = self._best_end(size)
        if found is None:
            last = len(self.chunks) == MAX_CHUNKS - 1
            self.chunks.append(Chunk(UNBOUNDED if last else max(size, self.max_bytes)))
            found = len(self.chunks) - 1, 0
        chunk, block = found
        return chunk, self.chunks[chunk].take(block, size)

    def free(self, chunk: int, offset: int, size: int) -> None:
        self.chunks[chunk].give(offset, size)

    def _best_fit(self, size: int) -> tuple[int, int] | None:
        best, found = UNBOUNDED, None
        for c, chunk in enumerate(self.chunks):
            sizes = chunk.sizes
            for b in range(len(sizes) - 1):
                if size <= sizes[b] < best:
                    best, found = sizes[b], (c, b)
        return found

    def _best_end(self, size: int) -> tuple[int, int] | None:
        """Rather none that grows its chunk, and of those the least left over; else least growth."""
        best, found = -UNBOUNDED, None
        for c, chunk in enumerate(self.chunks):
            if not chunk.sizes or chunk.sizes[-1] < size:
                continue
            reuse = chunk.high_water - chunk.offsets[-1] - size
            if (best < 0 and reuse > best) or 0 <= reuse < best:
                best, found = reuse, (c, len(chunk.sizes) - 1)
        return found
