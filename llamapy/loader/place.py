"""Where each weight goes: a pure function of sizes, flags and devices. It opens and asks nothing.

Layers are counted from the end, the output layer being one more than the model's; the token
embedding stays on the CPU. Layers on devices are dealt out in order, in proportion to -ts or to the
devices' free memory. Patterns (-ot, then the expert and feed-forward flags) come before all that.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import NamedTuple

from llamapy.base.errors import MemoryBudgetError, UsageError, near_match
from llamapy.base.types import Type
from llamapy.graph.device import BufferType
from llamapy.loader.place_flags import (
    ALL,
    AUTO,
    EXPERTS,
    LAYER_EXPERTS,
    LAYER_FFN,
    MODES,
    PlaceFlags,
)

CPU = "CPU"
MARGIN_BYTES = 1 << 30  # of each device, left by AUTO for the cache and computation


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device as placement sees it. `bufts` by preference; the CPU is named 'CPU' and is last."""

    name: str
    bufts: tuple[BufferType, ...]
    free_bytes: int = 0
    total_bytes: int = 0


class PlaceTensor(NamedTuple):
    """A weight to place. `role` is 'input', 'layer' or 'output'; `layer` counts for 'layer'."""

    name: str
    n_bytes: int
    role: str = "layer"
    layer: int | None = None
    op: str = "mul_mat"
    type: Type | None = None


class Row(NamedTuple):
    """One line of the placement's table. `layers` such as '0-11,output'."""

    device: str
    buft: str
    layers: str
    n_tensors: int
    n_bytes: int


Usable = Callable[[PlaceTensor, BufferType], bool]


@dataclass(frozen=True, slots=True)
class Placement:
    """`layer_device[il]` is the device of layer il, the last entry that of the output layer.
    `cause` says for each tensor: 'input', 'layer', 'output', the pattern that matched, or
    'unusable' when its device cannot use it. `flags` reproduce this placement exactly."""

    buft: Mapping[str, BufferType]
    cause: Mapping[str, str]
    layer_device: tuple[str, ...]
    flags: PlaceFlags
    notes: tuple[str, ...] = ()
    rows: tuple[Row, ...] = field(default=())

    def table(self) -> tuple[Row, ...]:
        """One row per device and buffer type, in the order of the devices."""
        return self.rows

    def bytes_on(self, device: str) -> int:
        return sum(row.n_bytes for row in self.rows if row.device == device)


def place(
    tensors: Sequence[PlaceTensor],
    n_layer: int,
    flags: PlaceFlags,
    devices: Sequence[DeviceInfo],
    usable: Usable | None = None,
) -> Placement:
    """A buffer type for each tensor. `usable` tells whether the op can read the tensor there;
    without it every buffer type will do. UsageError for a flag that names what is not there."""
    if flags.n_gpu_layers == AUTO:
        return _most_that_fit(tensors, n_layer, flags, devices, usable)
    cpu = devices[-1]
    chosen = _chosen(flags, devices)
    n_gpu = min(flags.n_gpu_layers, n_layer + 1) if chosen else 0
    layer_device = _deal(n_layer, n_gpu, chosen, flags.tensor_split)
    patterns = _patterns(tensors, flags, devices)
    by_name = {d.name: d for d in devices}
    buft: dict[str, BufferType] = {}
    cause: dict[str, str] = {}
    for t in tensors:
        forced = next((p for p in patterns if p[0].search(t.name)), None)
        if forced is not None:
            buft[t.name], cause[t.name] = forced[1], forced[0].pattern
            continue
        home = _home(t, layer_device)
        candidates = (*by_name[home].bufts, *cpu.bufts)
        good = (b for b in candidates if usable is None or usable(t, b))
        buft[t.name] = next(good, cpu.bufts[0])
        cause[t.name] = t.role if buft[t.name].device == home else "unusable"
    return Placement(
        buft, cause, layer_device, _exact(flags, n_gpu, chosen, layer_device),
        _notes(flags, chosen), _rows(tensors, buft, devices),
    )  # fmt: skip


def _exact(
    flags: PlaceFlags, n_gpu: int, chosen: Sequence[DeviceInfo], layer_device: tuple[str, ...]
) -> PlaceFlags:
    """Flags that leave nothing to find out: devices by name, layers per device as proportions. -sm
    none and -mg have done their work once one device is named."""
    counts = tuple(float(layer_device.count(d.name)) for d in chosen)
    return replace(
        flags,
        n_gpu_layers=n_gpu,
        devices=tuple(d.name for d in chosen),
        tensor_split=counts if n_gpu and len(chosen) > 1 else (),
        split_mode="layer",
        main_gpu=0,
    )


def _notes(flags: PlaceFlags, chosen: Sequence[DeviceInfo]) -> tuple[str, ...]:
    """Flags that did nothing."""
    if chosen:
        return ()
    asked = {
        f"-ngl {'all' if flags.n_gpu_layers >= ALL else flags.n_gpu_layers}": flags.n_gpu_layers,
        "-ts": flags.tensor_split,
        "-mg": flags.main_gpu,
    }
    return tuple(
        f"{flag}: without effect, no device besides the CPU is used"
        for flag, value in asked.items()
        if value
    )


def _home(t: PlaceTensor, layer_device: tuple[str, ...]) -> str:
    if t.role == "input":
        return CPU
    return layer_device[-1] if t.role == "output" or t.layer is None else layer_device[t.layer]


def _chosen(flags: PlaceFlags, devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices that may take layers, in the order asked for."""
    if flags.split_mode not in MODES:
        raise UsageError(
            f"-sm {flags.split_mode}: not supported, expected one of {', '.join(MODES)}"
        )
    others = {d.name: d for d in devices if d.name != CPU}
    names = tuple(others) if flags.devices is None else flags.devices
    for name in names:
        if name not in others and name != CPU:
            known = ", ".join((*others, CPU))
            raise UsageError(
                f"-dev {name}: no such device{near_match(name, others)} (known: {known})"
            )
    chosen = [others[name] for name in names if name != CPU]
    if flags.split_mode == "none" and chosen:
        if not 0 <= flags.main_gpu < len(chosen):
            raise UsageError(f"-mg {flags.main_gpu}: expected 0 to {len(chosen) - 1}")
        chosen = [chosen[flags.main_gpu]]
    if chosen and len(flags.tensor_split) > len(chosen):
        raise UsageError(
            f"-ts has {len(flags.tensor_split)} numbers for {len(chosen)} devices, expected at "
            "most one each"
        )
    return chosen


def _deal(
    n_layer: int, n_gpu: int, chosen: Sequence[DeviceInfo], split: tuple[float, ...]
) -> tuple[str, ...]:
    """Device per layer and of the output layer. Layer i of the n_gpu last goes to the first device
    whose share of the running sum of proportions lies above i / n_gpu."""
    n_cpu = n_layer + 1 - n_gpu
    if not n_gpu:
        return (CPU,) * n_cpu
    shares = list(split) or [float(d.free_bytes) for d in chosen]
    shares += [0.0] * (len(chosen) - len(shares))
    if sum(shares) <= 0:
        shares = [1.0] * len(chosen)
    running = list(accumulate(shares))
    bounds = [v / running[-1] for v in running]
    dealt = (chosen[bisect_right(bounds, i / n_gpu)].name for i in range(n_gpu))
    return (CPU,) * n_cpu + tuple(dealt)


def _patterns(
    tensors: Sequence[PlaceTensor], flags: PlaceFlags, devices: Sequence[DeviceInfo]
) -> list[tuple[re.Pattern[str], BufferType]]:
    """All patterns by precedence. One that is no regex, names no buffer type or matches no tensor
    is a UsageError."""
    known = {b.name: b for d in devices for b in d.bufts}
    cpu = devices[-1].bufts[0]
    out: list[tuple[re.Pattern[str], BufferType]] = []
    for regex, name in flags.overrides:
        if name not in known:
            raise UsageError(
                f"-ot {regex}={name}: no such buffer type{near_match(name, known)} "
                f"(known: {', '.join(known)})"
            )
        try:
            pattern = re.compile(regex)
        except re.error as e:
            raise UsageError(f"-ot {regex}={name}: not a regular expression: {e}") from None
        if not any(pattern.search(t.name) for t in tensors):
            raise UsageError(
                f"-ot {regex}={name}: the pattern matches no tensor; buffer types: "
                f"{', '.join(known)}"
            )
        out.append((pattern, known[name]))
    for flag, asked, regexes in (
        ("-cmoe", flags.cpu_moe, [EXPERTS]),
        ("-ncmoe", flags.n_cpu_moe, [LAYER_EXPERTS.format(i) for i in range(flags.n_cpu_moe)]),
        ("-ncffn", flags.n_cpu_ffn, [LAYER_FFN.format(i) for i in range(flags.n_cpu_ffn)]),
    ):
        compiled = [re.compile(regex) for regex in regexes]
        if asked and not any(p.search(t.name) for p in compiled for t in tensors):
            raise UsageError(f"{flag}: the model has no tensor for it to place")
        out += [(p, cpu) for p in compiled if asked]
    return out


def _rows(
    tensors: Sequence[PlaceTensor], buft: Mapping[str, BufferType], devices: Sequence[DeviceInfo]
) -> tuple[Row, ...]:
    out = []
    for kind in (b for d in devices for b in d.bufts):
        here = [t for t in tensors if buft[t.name] is kind]
        if here:
            layers = sorted({t.layer for t in here if t.role == "layer" and t.layer is not None})
            words = ["input"] if any(t.role == "input" for t in here) else []
            words += _ranges(layers)
            words += ["output"] if any(t.role == "output" for t in here) else []
            n_bytes = sum(t.n_bytes for t in here)
            out.append(Row(kind.device, kind.name, ",".join(words), len(here), n_bytes))
    return tuple(out)


def _ranges(numbers: Sequence[int]) -> list[str]:
    """[0, 1, 2, 5] -> ['0-2', '5']"""
    out: list[list[int]] = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return [str(a) if a == b else f"{a}-{b}" for a, b in out]


def check_fit(placement: Placement, devices: Sequence[DeviceInfo], margin: int = 0) -> None:
    """MemoryBudgetError when a device's weights and `margin` exceed its free memory. The CPU is not
    asked: its weights are pages of the file."""
    for d in devices:
        need = placement.bytes_on(d.name)
        if d.name != CPU and need and need + margin > d.free_bytes:
            raise MemoryBudgetError(
                f"device {d.name}: the weights placed on it need {need} bytes, {d.free_bytes} are "
                "free; ask for fewer layers (-ngl) or place tensors elsewhere (-ot)"
            )


def _most_that_fit(
    tensors: Sequence[PlaceTensor],
    n_layer: int,
    flags: PlaceFlags,
    devices: Sequence[DeviceInfo],
    usable: Usable | None,
) -> Placement:
    """The largest number of layers whose weights leave MARGIN_BYTES free on every device. What
    patterns alone put on a device is not ours to change."""
    for n in range(n_layer + 1 if _chosen(flags, devices) else 0, 0, -1):
        out = place(tensors, n_layer, replace(flags, n_gpu_layers=n), devices, usable)
        try:
            check_fit(out, devices, MARGIN_BYTES)
        except MemoryBudgetError:
            continue
        return out
    return place(tensors, n_layer, replace(flags, n_gpu_layers=0), devices, usable)
