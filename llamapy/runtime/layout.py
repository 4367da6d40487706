"""What the header of a file decides: the architecture, its shape, where each weight goes. No weight
is read for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llamapy.devices.cpu import CpuDevice
from llamapy.graph.device import Device
from llamapy.loader.hparams import HParams
from llamapy.loader.mapped import CPU_MAPPED
from llamapy.loader.place import CPU, DeviceInfo, Placement, place
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.spec import Matched, match
from llamapy.loader.splits import ModelFiles
from llamapy.loader.unread import refuse_unread
from llamapy.models import registry


@dataclass(frozen=True, slots=True)
class Layout:
    arch: registry.Architecture
    hparams: HParams
    matched: Matched
    placement: Placement
    notes: list[str]  # what the user should know


def lay_out(
    files: ModelFiles,
    flags: PlaceFlags,
    others: Sequence[Device],
    load_mode: str,
    *,
    lenient: bool = False,
) -> Layout:
    """FileError for what is wrong with the file (`lenient`: unknown tensors are a note), UsageError
    for a flag that names what is not there. `others`: devices besides the CPU."""
    arch = registry.find(files.get_str("general.architecture"), files.path)
    hparams = registry.shape_of(arch, files)
    matched = match(files, arch.tensors(hparams, files.tensors.__contains__))
    said = refuse_unread(files, hparams, matched.unused, arch.unread, lenient=lenient)
    infos = _describe(others, mapped=load_mode.startswith("mmap"))
    placement = place(matched.to_place(), hparams.n_layer, flags, infos)
    notes = [*placement.notes, *([said] if said else [])]
    return Layout(arch, hparams, matched, placement, notes)


def _describe(devices: Sequence[Device], *, mapped: bool) -> list[DeviceInfo]:
    """The devices as placement sees them, the CPU last."""
    infos: list[DeviceInfo] = []
    for device in devices:
        free, total = device.memory()
        infos.append(DeviceInfo(device.name, tuple(device.buffer_types()), free, total))
    cpu: Any = CpuDevice()
    free, total = cpu.memory()
    host = tuple(cpu.buffer_types())
    bufts = (CPU_MAPPED, *host) if mapped else host
    return [*infos, DeviceInfo(CPU, bufts, free, total)]
