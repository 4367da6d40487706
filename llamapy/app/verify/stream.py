"""One pass over a file: its sha256, and of each tensor the hashes and the numbers that are none.

The sha256, which takes longest, is computed by a second thread while this one does the rest of the
same piece, so that each byte comes from the disk once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from llamapy.app.verify.numbers import Scan
from llamapy.ffi.verify import Xxh64
from llamapy.loader.gguf import GGUF
from llamapy.loader.table import TensorInfo

PIECE = 8 << 20


class Hash(Protocol):
    def update(self, data: memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


def new(kind: str) -> Hash:
    return Xxh64() if kind == "xxh64" else hashlib.new(kind, usedforsecurity=False)


@dataclass(slots=True)
class Tensor:
    """A tensor whose bytes are there. `hashes` by kind, once it is done."""

    scan: Scan
    running: dict[str, Hash] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    at: int = 0

    def up_to(self, view: memoryview, end: int, whole: Sequence[Hash]) -> bool:
        """Take the bytes before `end` of the file; whether it is done then."""
        info = self.scan.info
        stop = min(end, info.offset + info.n_bytes)
        data = view[info.offset + self.at : stop]
        for h in (*self.running.values(), *whole):
            h.update(data)
        self.at = stop - info.offset
        self.scan.up_to(view, stop)
        if self.at == info.n_bytes:
            self.hashes = {kind: h.hexdigest() for kind, h in self.running.items()}
            self.running = {}
        return self.at == info.n_bytes


def walk(
    file: GGUF,
    infos: Sequence[TensorInfo],
    kinds: Sequence[str],
    whole: dict[str, Hash],
    progress: Callable[[int], None],
) -> Iterator[Tensor | str]:
    """Tensors as they are done, in the order of their offsets, then the file's sha256. `infos` do
    not overlap. `whole` gets all their data; `progress` hears how many bytes are behind."""
    view, size = file.view, file.size_bytes
    sha, waiting = hashlib.sha256(), sorted(infos, key=lambda t: t.offset)
    at = 0
    with ThreadPoolExecutor(1) as second:
        current: Tensor | None = None
        for start in range(0, size, PIECE):
            end = min(start + PIECE, size)
            job = second.submit(sha.update, view[start:end])
            while current is not None or at < len(waiting):
                if current is None:
                    if waiting[at].offset >= end < size:  # none is left for after the last
                        break
                    current = Tensor(Scan(waiting[at]), {kind: new(kind) for kind in kinds})
                    at += 1
                if not current.up_to(view, end, tuple(whole.values())):
                    break
                yield current
                current = None
            job.result()
            progress(end)
    yield sha.hexdigest()
