"""Weights with their rows interleaved by eight, made when a model is loaded.

Generation reads every weight once a token: from interleaved rows in one sequential stream, with no
shuffling between lanes. The product has the same bits (native/kernels/matmul/r8.h). The price is
memory that no other process shares, and the time to write it (most of which the system needs to
find the pages: 0.65 ns a byte on a Zen 4 server, where a token then takes 0.015 to 0.02 ns a byte
less, hence WORTH_STEPS). The file's pages are given back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any, Protocol

from llamapy.base import flags
from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.base.log import log
from llamapy.base.memory import available_bytes
from llamapy.base.types import interleaved
from llamapy.graph.device import BufferType, Device, Program
from llamapy.graph.ops import make
from llamapy.graph.tensor import PARAM, Tensor
from llamapy.loader.spec import Matched
from llamapy.loader.splits import ModelFiles
from llamapy.loader.table import TensorInfo
from llamapy.loader.weights import Progress, Weights

CHOICES = ("auto", "on", "off")
TIED = ("output.weight", "token_embd.weight")  # without the first, the second is the output too
ROWS = 8
ALIGNMENT = 64
AT_ONCE_BYTES = 32 << 20  # of one run: enough for all threads, over within 30 ms
WORTH_STEPS = 40  # generated tokens from which repacking is repaid


@dataclass(slots=True)
class Repacked:
    """What was done: for the user. `kept`: how many weights were left as they are, by reason;
    `tried`: whether there was an occasion (for 'auto', enough tokens to generate)."""

    asked: str
    tried: bool = False
    n_tensors: int = 0
    n_bytes: int = 0
    seconds: float = 0.0
    kept: dict[str, int] = field(default_factory=dict)

    def keep(self, reason: str, n: int = 1) -> None:
        if n:
            self.kept[reason] = self.kept.get(reason, 0) + n

    @property
    def why_not(self) -> str | None:
        """Why no weight was repacked, in the words that hold for most of them; None if any was."""
        if self.n_tensors:
            return None
        if self.asked == "off":
            return "not asked for"
        if not self.tried:
            return f"fewer than {WORTH_STEPS} tokens to generate"
        most = max(self.kept, key=lambda reason: self.kept[reason], default=None)
        return most or "no product reads a quantised weight"

    def facts(self) -> dict[str, Any]:
        """For JSON."""
        return {"done": self.n_tensors > 0, **asdict(self), "why_not": self.why_not}


class Repacker(Device, Protocol):
    """A device with a buffer type for such weights."""

    repack_buft: BufferType

    @property
    def repack_pays(self) -> bool: ...

    def lower(self, nodes: list[Tensor], *, apart: bool = False) -> Program: ...


def asked_for(given: str | None) -> str:
    """What was `given`, else what LLAMAPY_REPACK says, else 'auto'. UsageError for another word."""
    if given is not None and given not in CHOICES:
        raise UsageError(f"--repack {given}: expected one of {', '.join(CHOICES)}")
    return given or flags.choice("LLAMAPY_REPACK") or "auto"


def repack(
    weights: Weights,
    matched: Matched,
    device: Repacker,
    choice: str,
    interrupted: Callable[[], bool] = lambda: False,
    progress: Progress = lambda done, total: None,
    *,
    locked: bool = False,
    promised: int = 0,
    overcommit: bool = False,
) -> Repacked:
    """Give the weights that products read a twin in `device`'s memory; `Tensor.twin` is set when
    all are made. 'auto' does not where the file's pages are `locked` or the kernels gain nothing,
    and leaves half of the memory available; when there turns out to be none it goes on without,
    with a warning. 'on' takes what it needs (MemoryBudgetError when there is none, or, without
    `overcommit`, when it is not available). `promised` bytes of what is available are for others,
    who have not touched them yet. `progress(done, total)` counts bytes."""
    out = Repacked(choice, tried=True)
    chosen = list(candidates(weights, matched, device, out))
    n_bytes = sum(t.n_bytes for t in chosen)
    missed = None
    if choice == "auto":
        missed = _why_not_now(n_bytes, device, locked, promised)
    elif not overcommit:
        _check_room(n_bytes, promised)
    start = time.perf_counter()
    if chosen and missed is None:
        missed = _try(chosen, weights, device, choice, interrupted, progress)
    if missed is not None:
        out.keep(missed, len(chosen))
    elif chosen:
        out.n_tensors, out.n_bytes = len(chosen), n_bytes
        out.seconds = time.perf_counter() - start
    return out


def _check_room(n_bytes: int, promised: int) -> None:
    room = available_bytes()
    if room is not None and n_bytes + promised > room:
        raise MemoryBudgetError(
            f"--repack on: no memory for {n_bytes} bytes more, {max(room - promised, 0)} are "
            "available; --repack off needs none"
        )


def _why_not_now(n_bytes: int, device: Repacker, locked: bool, promised: int) -> str | None:
    if locked:
        return "the load mode keeps the file in memory"
    if not device.repack_pays:
        return "plain C gains nothing from it"
    room = available_bytes()
    if room is not None and n_bytes > (room := max(room - promised, 0)) // 2:
        return f"{n_bytes} bytes are more than half of the {room} available"
    return None


def _try(
    chosen: Sequence[Tensor],
    weights: Weights,
    device: Repacker,
    choice: str,
    interrupted: Callable[[], bool],
    progress: Progress,
) -> str | None:
    """Make the twins; the reason why there are none, None if there are."""
    try:
        made = _make_twins(chosen, weights, device, interrupted, progress)
        return None if made else "interrupted"
    except (MemoryBudgetError, MemoryError) as e:
        n_bytes = sum(t.n_bytes for t in chosen)
        missed = f"no memory for {n_bytes} bytes more"
        if choice == "on":
            raise MemoryBudgetError(f"--repack on: {missed}; --repack off needs none") from e
    log.warn("W09", f"weights are not repacked: {missed}; --repack off does not ask for it")
    return missed


def read_by_products(matched: Matched) -> set[str]:
    """Names of the weights that products read."""
    output, tied = TIED
    names = {s.name for s, _ in matched.found.values() if s.op in ("mul_mat", "mul_mat_id")}
    return names | {tied} if output in matched.absent else names


def replaceable(matched: Matched) -> dict[str, TensorInfo]:
    """Tensors of which nothing but a twin is read once they have one: not a table of rows."""
    names = read_by_products(matched) - {TIED[1]}
    return {
        info.name: info
        for _, info in matched.found.values()
        if info.name in names and interleaved(info.type) is not None
    }


def give_back(weights: Weights, matched: Matched, files: ModelFiles) -> None:
    """The memory of the plain forms that have a twin now."""
    for info in replaceable(matched).values():
        if weights[info.name].twin is not None:
            weights.back_to_file(info, files)


def candidates(
    weights: Mapping[str, Tensor], matched: Matched, device: Repacker, out: Repacked
) -> Iterable[Tensor]:
    names = read_by_products(matched)
    experts = {s.name for s, _ in matched.found.values() if s.op == "mul_mat_id"}
    for name, t in weights.items():
        if name not in names or not t.type.quantised:
            continue
        if out.asked == "auto" and name in experts:
            out.keep("a token reads few of the experts")
            continue
        if t.buffer is None or not t.buffer.type.host:
            out.keep("on another device")
        elif interleaved(t.type) is None:
            out.keep(f"{t.type.name} has no such form")
        elif t.ne[1] % ROWS:
            out.keep("its rows are not a multiple of 8")
        elif not device.supports_op(make("repack", t)):
            out.keep(f"no kernel for {t.type.name} here")
        else:
            yield t


def _make_twins(
    chosen: Sequence[Tensor],
    weights: Weights,
    device: Repacker,
    interrupted: Callable[[], bool],
    progress: Progress,
) -> bool:
    sizes = [-(-t.n_bytes // ALIGNMENT) * ALIGNMENT for t in chosen]
    buffer = device.alloc(device.repack_buft, sum(sizes), "weights")
    nodes = [make("repack", t) for t in chosen]
    for t, node, at in zip(chosen, nodes, accumulate(sizes, initial=0), strict=False):
        node.name, node.buffer, node.offset_bytes = t.name, buffer, at
    done, total = 0, sum(t.n_bytes for t in chosen)
    try:
        for part in _parts(nodes):
            progress(done, total)
            if interrupted():
                return False
            device.lower(part, apart=True).run()
            done += sum(node.n_bytes for node in part)
        progress(done, total)
    finally:
        if done < total:
            buffer.free()
    weights.buffers.append(buffer)
    for t, node in zip(chosen, nodes, strict=True):
        t.twin = Tensor(node.type, node.ne, name=t.name, flags=PARAM)
        t.twin.buffer, t.twin.offset_bytes = buffer, node.offset_bytes
    return True


def _parts(nodes: Sequence[Tensor]) -> Iterable[list[Tensor]]:
    """Cut into runs that end soon."""
    part: list[Tensor] = []
    n_bytes = 0
    for node in nodes:
        part.append(node)
        n_bytes += node.n_bytes
        if n_bytes >= AT_ONCE_BYTES:
            yield part
            part, n_bytes = [], 0
    if part:
        yield part
