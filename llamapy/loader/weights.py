"""Placed tensors become weights: views of the mapped file on the host, copies anywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from llamapy.base.closing import Closing
from llamapy.base.errors import FileError, MemoryBudgetError, UsageError
from llamapy.ffi.memory import lock
from llamapy.graph.device import Buffer, BufferType, Device
from llamapy.graph.tensor import PARAM, Tensor
from llamapy.loader.mapped import CPU_MAPPED, MappedBuffer, remote_filesystem
from llamapy.loader.place import CPU, Placement
from llamapy.loader.spec import Matched
from llamapy.loader.splits import ModelFiles
from llamapy.loader.table import TensorInfo
from llamapy.loader.words import one_line, shown

MODES = ("mmap", "read", "mmap+mlock", "read+mlock")
CHUNK = 16 << 20

Progress = Callable[[int, int], None]


class Weights(Closing, Mapping[str, Tensor]):
    """Weights by name, each with buffer and offset set. `notes` are for the user: what could not be
    done as asked. `close` frees the buffers, last opened first."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.buffers: list[Buffer] = []
        self.notes: list[str] = []
        self.locked = False

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    @property
    def n_bytes(self) -> int:
        return sum(t.n_bytes for t in self.tensors.values())

    @property
    def mapped_bytes(self) -> int:
        """Bytes of weights that are views of a mapped file."""
        tensors = self.tensors.values()
        return sum(t.n_bytes for t in tensors if isinstance(t.buffer, MappedBuffer))

    def in_place_bytes(self, files: ModelFiles) -> int:
        """Bytes of the files that steps read, and that are no memory of this process yet."""
        if self.locked or not all(shard.from_file for shard in files.shards):
            return 0
        mapped = (t for t in self.tensors.values() if isinstance(t.buffer, MappedBuffer))
        return sum(t.n_bytes for t in mapped if t.twin is None)

    def resident_bytes(self) -> int | None:
        """Bytes of the mapped files in memory now; None where the system does not tell."""
        sizes = [b.resident_bytes() for b in self.buffers if isinstance(b, MappedBuffer)]
        return None if None in sizes else sum(n for n in sizes if n is not None)

    def back_to_file(self, info: TensorInfo, files: ModelFiles) -> None:
        """A tensor that nothing is going to read lies in the file again. Its copy, if it has one
        of its own, goes when no graph reads it any more; pages of the file leave at once."""
        tensor, shard = self.tensors[info.name], files.shards[info.shard]
        copy = tensor.buffer
        if copy is not None and not isinstance(copy, MappedBuffer):
            if not shard.from_file or not _even(info):
                return
            # One assignment, so that another thread sees the whole of the one or of the other.
            tensor.buffer = MappedBuffer(files.data(info))
            self.buffers.remove(copy)
        files.forget(info)

    def close(self) -> None:
        for tensor in self.tensors.values():
            tensor.buffer = None
        self.tensors = {}
        while self.buffers:
            self.buffers.pop().free()


def load_weights(
    files: ModelFiles,
    matched: Matched,
    placement: Placement,
    devices: Sequence[Device],
    *,
    mode: str = "mmap",
    progress: Progress | None = None,
    apart: Collection[str] = (),
) -> Weights:
    """Give each tensor of `matched` its bytes in the buffer type it was placed in.

    mode 'mmap' (host weights stay in the file, read ahead), 'read' (copied), each with '+mlock' to
    keep them in memory; a lock that is refused is a note, not an error. `progress(done, total)`
    counts bytes that are copied. Copies of the tensors in `apart` get a buffer each, so that they
    can go alone. `files` may be closed afterwards.
    """
    if mode not in MODES:
        raise UsageError(f"load mode {mode}: expected one of {', '.join(MODES)}")
    out = Weights()
    try:
        mapping = mode.startswith("mmap")
        mapped, copied = in_place_or_copied(matched, placement, mapping)
        if mapping:
            _map(out, files, mapped)
            _advise(out, files)
        _Copy(out, files, progress, apart, from_map=mapping).run(copied, placement, devices)
        if mode.endswith("+mlock"):
            _lock(out)
    except BaseException:
        out.close()
        raise
    return out


def in_place_or_copied(
    matched: Matched, placement: Placement, mapping: bool
) -> tuple[list[TensorInfo], list[TensorInfo]]:
    """(stay in the file, are copied). A tensor that the file's small alignment has put at an odd
    place is copied: kernels read whole words."""
    mapped: list[TensorInfo] = []
    copied: list[TensorInfo] = []
    for _, info in matched.found.values():
        host = placement.buft[info.name].device == CPU
        (mapped if mapping and host and _even(info) else copied).append(info)
    return mapped, copied


def _even(info: TensorInfo) -> bool:
    return info.offset % CPU_MAPPED.alignment == 0


def _tensor(out: Weights, info: TensorInfo, buffer: Buffer, offset: int) -> Tensor:
    tensor = Tensor(info.type, info.ne, name=info.name, flags=PARAM)
    tensor.buffer, tensor.offset_bytes = buffer, offset
    out.tensors[info.name] = tensor
    return tensor


def _map(out: Weights, files: ModelFiles, mapped: Sequence[TensorInfo]) -> None:
    buffers: dict[int, MappedBuffer] = {}
    for info in mapped:
        if info.shard not in buffers:
            buffers[info.shard] = MappedBuffer(files.shards[info.shard].view)
            out.buffers.append(buffers[info.shard])
        _tensor(out, info, buffers[info.shard], info.offset)


def _advise(out: Weights, files: ModelFiles) -> None:
    files.prefetch()
    kind = remote_filesystem(files.path)
    if kind:
        out.notes.append(
            f"{one_line(files.path)} lies on a {kind} file system, where mapping is slow: "
            "--load-mode read may be faster"
        )


class _Copy:
    """Copies tensors into buffers of their devices, as few as the buffer types allow."""

    def __init__(
        self,
        out: Weights,
        files: ModelFiles,
        progress: Progress | None,
        apart: Collection[str],
        *,
        from_map: bool,
    ) -> None:
        self._out = out
        self._files = files
        self._apart = apart
        self._progress = progress or (lambda done, total: None)
        self._from_map = from_map
        self._done = 0
        self._total = 0

    def run(
        self, infos: Sequence[TensorInfo], placement: Placement, devices: Sequence[Device]
    ) -> None:
        self._total = sum(info.n_bytes for info in infos)
        by_name = {d.name: d for d in devices}
        kinds: dict[tuple[str, str], list[TensorInfo]] = {}
        for info in infos:
            alone = info.name if info.name in self._apart else ""
            kinds.setdefault((placement.buft[info.name].name, alone), []).append(info)
        for group in kinds.values():
            buft = placement.buft[group[0].name]
            device = by_name[buft.device]
            if buft.name == CPU_MAPPED.name:
                buft = device.default_buft
            self._group(group, buft, device)
        self._progress(self._done, self._total)

    def _group(self, infos: Sequence[TensorInfo], buft: BufferType, device: Device) -> None:
        for part, n_bytes in _pack(infos, buft):
            buffer = device.alloc(buft, n_bytes, "weights")
            self._out.buffers.append(buffer)
            for info, offset in part:
                _tensor(self._out, info, buffer, offset)
                for at, chunk in self._chunks(info):
                    buffer.write(offset + at, chunk)
                    self._done += len(chunk)
                    self._progress(self._done, self._total)

    def _chunks(self, info: TensorInfo) -> Iterator[tuple[int, memoryview]]:
        if self._from_map:
            data = self._files.data(info)
            for at in range(0, info.n_bytes, CHUNK):
                yield at, data[at : at + CHUNK]
            return
        path = self._files.shards[info.shard].path
        scratch = memoryview(bytearray(min(CHUNK, info.n_bytes)))
        with open(path, "rb", buffering=0) as f:
            at = 0
            while at < info.n_bytes:
                f.seek(info.offset + at)
                n = f.readinto(scratch[: info.n_bytes - at])
                if not n:
                    raise FileError(
                        f"{one_line(path)}: tensor {shown(info.name)}: the file ends at byte "
                        f"{info.offset + at}; it was changed while it was read"
                    )
                yield at, scratch[:n]
                at += n


def _pack(
    infos: Sequence[TensorInfo], buft: BufferType
) -> Iterator[tuple[list[tuple[TensorInfo, int]], int]]:
    """Tensors with their offsets, and the size, of one buffer after another."""
    part: list[tuple[TensorInfo, int]] = []
    end = 0
    for info in infos:
        size = buft.size_of(Tensor(info.type, info.ne))
        if size > buft.max_bytes:
            raise MemoryBudgetError(
                f"tensor {shown(info.name)} needs {size} bytes, a buffer of type {buft.name} holds "
                f"at most {buft.max_bytes}; place it elsewhere (-ot)"
            )
        at = -(-end // buft.alignment) * buft.alignment
        if part and at + size > buft.max_bytes:
            yield part, end
            part, at = [], 0
        part.append((info, at))
        end = at + size
    if part:
        yield part, end


def _lock(out: Weights) -> None:
    """mlock what is on the host. One note for all that could not be locked."""
    refused, reason = 0, 0
    for buffer in out.buffers:
        if buffer.type.host and (address := getattr(buffer, "address", 0)):
            code = lock(address, buffer.n_bytes)
            out.locked = out.locked or not code
            refused, reason = refused + (buffer.n_bytes if code else 0), code or reason
    if refused:
        import resource  # not on every system, and seldom needed

        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        limit = "none" if soft == resource.RLIM_INFINITY else f"{soft} bytes"
        out.notes.append(
            f"mlock of {refused} bytes refused ({os.strerror(reason)}): the limit is {limit}, "
            f"{refused} bytes are needed (ulimit -l {-(-refused // 1024)}); going on without"
        )
