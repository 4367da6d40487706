"""Weights in buffers: views of the file, copies, locks, and nothing left behind."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf_writer
import pytest

from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.graph.device import BufferType
from llamapy.graph.tensor import PARAM
from llamapy.loader import weights as module
from llamapy.loader.mapped import CPU_MAPPED, MappedBuffer
from llamapy.loader.place import DeviceInfo, PlaceFlags, Placement, place
from llamapy.loader.spec import Matched, TensorSpec, match
from llamapy.loader.splits import ModelFiles, open_model
from llamapy.loader.weights import Weights, load_weights

WHOLE = gguf_writer.small()


class Memory:
    """A buffer of a made-up device: bytes that remember whether they were freed."""

    def __init__(self, kind: BufferType, n_bytes: int, usage: str, freed: list[Memory]) -> None:
        self.type, self.n_bytes, self.usage = kind, n_bytes, usage
        self.bytes = bytearray(n_bytes)
        self.freed = freed

    def write(self, offset: int, data: Any) -> None:
        assert offset + len(data) <= self.n_bytes
        self.bytes[offset : offset + len(data)] = data

    def read(self, offset: int, n_bytes: int) -> memoryview:
        return memoryview(self.bytes)[offset : offset + n_bytes]

    def free(self) -> None:
        self.freed.append(self)


class Device:
    """As much of graph.device.Device as loading asks for."""

    def __init__(self, name: str, max_bytes: int = 1 << 40) -> None:
        self.name = name
        self.default_buft = BufferType(name, name, 64, max_bytes, host=name == "CPU")
        self.opened: list[Memory] = []
        self.freed: list[Memory] = []

    def alloc(self, buft: BufferType, n_bytes: int, usage: str) -> Memory:
        assert usage == "weights"
        assert n_bytes <= buft.max_bytes
        self.opened.append(Memory(buft, n_bytes, usage, self.freed))
        return self.opened[-1]

    def info(self) -> DeviceInfo:
        extra = (CPU_MAPPED,) if self.name == "CPU" else ()
        return DeviceInfo(self.name, (self.default_buft, *extra), 1 << 40, 1 << 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return WHOLE.save(tmp_path / "m.gguf")


@pytest.fixture
def files(path: Path) -> Iterator[ModelFiles]:
    with open_model(path) as f:
        yield f


def specs_of(files: ModelFiles) -> list[TensorSpec]:
    def role(name: str) -> str:
        return "input" if name.startswith("token") else "layer" if "blk" in name else "output"

    return [
        TensorSpec(t.name, t.ne, int(t.name.split(".")[1]) if "blk" in t.name else None, role(n))
        for n, t in files.tensors.items()
    ]


def planned(files: ModelFiles, devices: list[Any], flags: PlaceFlags) -> tuple[Matched, Placement]:
    m = match(files, specs_of(files))
    return m, place(m.to_place(), 2, flags, [d.info() for d in devices])


def load(
    files: ModelFiles, devices: list[Any], flags: PlaceFlags | None = None, **kw: Any
) -> Weights:
    m, p = planned(files, devices, flags or PlaceFlags())
    return load_weights(files, m, p, devices, **kw)


def check_bytes(w: Weights) -> None:
    assert list(sorted(w)) == sorted(row.name.decode() for row in WHOLE.rows)
    for row in WHOLE.rows:
        t = w[row.name.decode()]
        assert t.flags == PARAM
        assert t.n_bytes == len(row.data)
        assert bytes(t.buffer.read(t.offset_bytes, t.n_bytes)) == row.data


def test_mapped_by_default(files: ModelFiles, path: Path) -> None:
    cpu = Device("CPU")
    with load(files, [cpu]) as w:
        check_bytes(w)
        assert cpu.opened == []
        assert [type(b) for b in w.buffers] == [MappedBuffer]
        assert w.mapped_bytes == w.n_bytes == sum(len(row.data) for row in WHOLE.rows)
        t = w["blk.1.attn_q.weight"]
        assert t.ne == (64, 64, 1, 1)
        assert t.buffer.type.host
        assert (t.buffer.address + t.offset_bytes) % 32 == 0
        # the address is that of the file's bytes
        assert ctypes.string_at(t.buffer.address + t.offset_bytes, 4) == b"\2\2\2\2"
        with pytest.raises(RuntimeError, match="read-only"):
            t.buffer.write(0, b"x")
        if sys.platform == "linux":
            resident = w.resident_bytes()
            assert resident is not None
            assert 0 < resident <= path.stat().st_size + 4096


@pytest.mark.parametrize("mode", ["read", "read+mlock"])
def test_read_copies(files: ModelFiles, mode: str) -> None:
    cpu = Device("CPU")
    with load(files, [cpu], mode=mode) as w:
        check_bytes(w)
        assert w.mapped_bytes == 0
        assert len(cpu.opened) == 1
        assert all(t.offset_bytes % 64 == 0 for t in w.values())
    assert cpu.freed == cpu.opened


@pytest.mark.parametrize("mode", ["mmap", "read"])
def test_layers_on_a_device(files: ModelFiles, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 1000)
    cpu, gpu = Device("CPU"), Device("G")
    seen: list[tuple[int, int]] = []
    flags = PlaceFlags(n_gpu_layers=2)
    with load(files, [gpu, cpu], flags, mode=mode, progress=lambda *at: seen.append(at)) as w:
        check_bytes(w)
        on_gpu = [n for n, t in w.items() if t.buffer in gpu.opened]
        assert on_gpu == [
            "blk.1.attn_norm.weight", "blk.1.attn_q.weight", "output_norm.weight", "output.weight"
        ]  # fmt: skip
        copied = sum(w[n].n_bytes for n in on_gpu) if mode == "mmap" else w.n_bytes
        assert seen[-1] == (copied, copied)
        assert seen == sorted(seen)
        assert len(seen) > 5
    assert gpu.freed == gpu.opened


def test_several_buffers_where_one_is_too_small(files: ModelFiles) -> None:
    gpu = Device("G", max_bytes=2600)
    with load(files, [gpu, Device("CPU")], PlaceFlags(n_gpu_layers=3)) as w:
        check_bytes(w)
        assert len(gpu.opened) == 3
        assert all(b.n_bytes <= 2600 for b in gpu.opened)
    assert gpu.freed == gpu.opened[::-1]


def test_tensor_larger_than_any_buffer(files: ModelFiles) -> None:
    gpu = Device("G", max_bytes=2000)
    with pytest.raises(MemoryBudgetError, match=r"'blk.0.attn_q.weight' needs 2304 bytes.*2000"):
        load(files, [gpu, Device("CPU")], PlaceFlags(n_gpu_layers=3))
    assert gpu.freed == gpu.opened[::-1]


def test_odd_places_are_copied(tmp_path: Path) -> None:
    w = gguf_writer.Writer(alignment=4).u32("general.alignment", 4)
    w.tensor("output.weight", (3,), data=b"abcdefghijkl").tensor("output.bias", (9,))
    cpu = Device("CPU")
    with open_model(w.save(tmp_path / "m.gguf")) as files, load(files, [cpu]) as loaded:
        t = loaded["output.weight"]
        assert files.tensors["output.weight"].offset % 32
        assert t.buffer in cpu.opened
        assert bytes(t.buffer.read(t.offset_bytes, 12)) == b"abcdefghijkl"


def test_shards_are_mapped_each(tmp_path: Path) -> None:
    paths = gguf_writer.save_shards(tmp_path, "m", WHOLE, (4, 3))
    with open_model(paths[0]) as files, load(files, [Device("CPU")]) as w:
        check_bytes(w)
        assert len(w.buffers) == 2


def test_files_may_be_closed_before_the_weights(path: Path) -> None:
    files = open_model(path)
    w = load(files, [Device("CPU")])
    files.close()
    check_bytes(w)
    w.close()


@pytest.mark.parametrize("mode", ["mmap", "read", "mmap+mlock"])
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_leaks(path: Path, mode: str) -> None:
    def n_maps() -> int:
        return Path("/proc/self/maps").read_text().count(str(path))

    for _ in range(100):
        with open_model(path) as files, load(files, [Device("CPU")], mode=mode) as w:
            assert n_maps() == 1
            assert len(w) == len(WHOLE.rows)
    assert n_maps() == 0


def test_lock_that_is_refused_is_a_note(files: ModelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lock", lambda address, n: 12)
    with load(files, [Device("CPU")], mode="mmap+mlock") as w:
        check_bytes(w)
        (note,) = w.notes
        n = files.size_bytes
        assert f"mlock of {n} bytes refused" in note
        assert f"{n} bytes are needed (ulimit -l {-(-n // 1024)})" in note
        assert "the limit is" in note


def test_remote_file_system_is_said(files: ModelFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "remote_filesystem", lambda path: "nfs4")
    with load(files, [Device("CPU")]) as w:
        assert "nfs4" in w.notes[0]
        assert "--load-mode read" in w.notes[0]
    with load(files, [Device("CPU")], mode="read") as w:
        assert w.notes == []


def test_unknown_mode(files: ModelFiles) -> None:
    with pytest.raises(UsageError, match="load mode dio: expected one of mmap, read"):
        load(files, [Device("CPU")], mode="dio")
