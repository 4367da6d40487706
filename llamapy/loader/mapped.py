"""The mapped file as a buffer: weights stay where they are, pages come when they are touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from llamapy.ffi.memory import address_of
from llamapy.graph.device import BufferType

CPU_MAPPED = BufferType("CPU_Mapped", "CPU", alignment=32, max_bytes=1 << 62, host=True)
REMOTE = ("nfs", "cifs", "smb", "9p", "fuse", "ceph", "glusterfs", "lustre", "afs", "virtiofs")


class MappedBuffer:
    """A graph.device.Buffer over a read-only mapping of a whole file, where offsets are the file's,
    or over one tensor of it. It keeps the mapping alive, whether or not the GGUF it came from has
    been closed."""

    def __init__(self, view: memoryview) -> None:
        self.type = CPU_MAPPED
        self.usage = "weights"
        self.n_bytes = len(view)
        self._view: memoryview | None = memoryview(view)
        self.address = address_of(view)

    def write(self, offset: int, data: Any) -> None:
        raise RuntimeError(f"write to a mapped file at {offset}: weights are read-only")

    def read(self, offset: int, n_bytes: int) -> memoryview:
        if self._view is None:
            raise RuntimeError("read from a mapped buffer after free")
        return self._view[offset : offset + n_bytes]

    def free(self) -> None:
        """The file is unmapped when nobody else holds a view of it."""
        if self._view is not None:
            self._view.release()
            self._view = None
            self.address = 0

    def resident_bytes(self) -> int | None:
        """Bytes of the mapping that are in memory now; None where the system does not tell."""
        try:
            lines = Path("/proc/self/smaps").read_text().splitlines()
        except OSError:
            return None
        inside, total = False, 0
        for line in lines:
            head = line.split(maxsplit=1)[0]
            if "-" in head and not head.endswith(":"):
                start, end = (int(v, 16) for v in head.split("-"))
                inside = start < self.address + self.n_bytes and self.address < end
            elif inside and head == "Rss:":
                total += int(line.split()[1]) * 1024
        return total


def remote_filesystem(path: str | os.PathLike[str]) -> str | None:
    """Type of the file system of `path` if it is a network or user-space one, where mapping is
    slow; None if it is not, or the system does not tell."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
        device = os.stat(path).st_dev
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts:
        fields, _, rest = line.partition(" - ")
        kind = rest.split(" ", 1)[0]
        if fields.split(" ")[2] == number and kind.startswith(REMOTE):
            return kind
    return None
