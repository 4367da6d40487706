"""Whether there is memory for what is about to be used, before it is.

What must fit in what is available (base/memory.py): the cache, the compute buffers, weights that
were copied, and the weights that are read in place. The last are pages of the file, which the
system may drop and read again; but every token reads (nearly) all of them, so that a model larger
than the memory left runs at the speed of the disk. So they count, and `overcommit` goes on without
them, or without anything, having room. Pages of the file that are in memory already need no room of
their own: what is available counts them as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from llamapy.base.errors import LlamapyError, MemoryBudgetError
from llamapy.base.memory import available_bytes, in_units
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.null.device import NullBuffer
from llamapy.graph.device import BufferType
from llamapy.kv.cells import PAD
from llamapy.loader.place import CPU
from llamapy.loader.splits import ModelFiles
from llamapy.loader.weights import in_place_or_copied
from llamapy.runtime.context import Context
from llamapy.runtime.layout import Layout
from llamapy.runtime.params import ContextParams, Parts

OVERCOMMIT = "--overcommit goes on regardless"
LESS_CACHE = {"type_k": "q8_0", "type_v": "q8_0"}
LESS_COMPUTE = {"n_ubatch": 64}


class NotEnough(MemoryBudgetError):
    """Said with the remedy."""


class Unopened(NullBuffer):
    """A buffer as a plan names it."""

    address = 0


class SizingCpu(CpuDevice):
    """The CPU, but that it opens no memory and starts no threads."""

    def alloc(self, buft: BufferType, n_bytes: int, usage: str) -> Any:
        return Unopened([], buft, n_bytes, usage)

    @property
    def pool(self) -> Any:
        return None


@dataclass(frozen=True, slots=True)
class ContextBytes:
    """What a context takes when all of it is in use; `compute` by device. `output`: the rows that
    are handed out."""

    cache: int
    compute: dict[str, int]
    scratch: int
    output: int

    @property
    def on_host(self) -> int:
        return self.cache + self.compute.get(CPU, 0) + self.scratch + self.output


def context_bytes(parts: Parts, params: ContextParams, n_outputs: int = 0) -> ContextBytes:
    """By making the context, its graphs and their plans, without their memory. `n_outputs`: rows of
    logits per graph, if more than one of each sequence. UsageError as for a context."""
    dry = replace(parts, cpu=SizingCpu, room=lambda context, n_outputs: None)
    with Context(dry, params) as ctx:
        if n_outputs > params.n_seq_max:
            ctx.reserve(n_outputs)
        rows = max(n_outputs, params.n_seq_max)
        scratch = ctx.scratch_bytes(rows)
        compute = ctx.buffer_bytes()
        return ContextBytes(compute.pop("kv"), compute, scratch, ctx.output_bytes(rows))


def largest_ctx(cost: Callable[[int], int], room: int, most: int) -> int | None:
    """The largest context up to `most` whose bytes, which grow with it, are at most `room`: `most`
    itself or a multiple of 256; None when not even the smallest fits."""
    if cost(most) <= room:
        return most
    low, high = 1, -(-most // PAD)  # in units of PAD: fits, does not
    if high == 1 or (at_low := cost(PAD)) > room:
        return None
    at_high = cost(high * PAD)
    for i in range(64):
        if high - low <= 1:
            break
        # Bytes are nearly a line: the first guess is off by a unit or two.
        share = (room - at_low) / max(at_high - at_low, 1) if i < 6 else 0.5
        guess = min(max(low + int(share * (high - low)), low + 1), high - 1)
        n = cost(guess * PAD)
        if n <= room:
            low, at_low = guess, n
        else:
            high, at_high = guess, n
    return low * PAD


def check_copies(files: ModelFiles, laid: Layout, load_mode: str) -> None:
    """Before weights are copied into memory of the host."""
    mapping = load_mode.startswith("mmap")
    copied = in_place_or_copied(laid.matched, laid.placement, mapping)[1]
    need = sum(t.n_bytes for t in copied if laid.placement.buft[t.name].device == CPU)
    room = available_bytes()
    if room is not None and need > room:
        instead = "" if mapping else "--load-mode mmap reads them in place; "
        raise MemoryBudgetError(
            f"{files.path}: {in_units(need)} of weights are to be copied, {in_units(room)} are "
            f"available; {instead}{OVERCOMMIT}"
        )


def check_context(ctx: Context, n_outputs: int, in_place: int, again: Callable[[], Parts]) -> None:
    """Before a context that was just opened, or grew to graphs of `n_outputs` rows, is used.
    `in_place`: bytes of weights that are read from the file; `again` gives what to try smaller ones
    with."""
    taken = ctx.buffer_bytes()
    room = available_bytes()
    need = in_place + taken["kv"] + taken.get(CPU, 0) + ctx.output_bytes(n_outputs)
    if room is not None and need > room:
        raise not_enough(again(), ctx.params, n_outputs, in_place, room)


def not_enough(
    parts: Parts, params: ContextParams, n_outputs: int, in_place: int, room: int
) -> NotEnough:
    """What is needed, what there is, and what fits."""
    need = context_bytes(parts, params, n_outputs)
    weights = f"{in_units(in_place)} of weights, " if in_place else ""
    fits = list(remedies(parts, params, n_outputs, room - in_place))
    return NotEnough(
        f"not enough memory: {weights}{in_units(need.cache)} of cache for a context of "
        f"{params.n_ctx} and {in_units(need.on_host - need.cache)} to compute with, "
        f"{in_units(room)} are available; "
        + (f"what fits: {' or '.join(fits)}" if fits else OVERCOMMIT)
    )


def remedies(parts: Parts, params: ContextParams, n_outputs: int, room: int) -> Iterator[str]:
    """Flags that make a context fit into `room`."""

    def cost(**change: Any) -> int:
        return context_bytes(parts, replace(params, **change), n_outputs).on_host

    if params.n_seq_max > 1:  # the context is as large as its sequences are many
        m = next((m for m in _fewer(params.n_seq_max) if cost(**_share(params, m)) <= room), None)
        if m is not None:
            yield f"--parallel {m}"
    else:
        n = largest_ctx(lambda n: cost(n_ctx=n), room, params.n_ctx)
        if n is not None:
            yield f"--ctx-size {n}"
    for flags, change in (
        ("-ctk q8_0 -ctv q8_0", LESS_CACHE),
        ("--ubatch-size 64", LESS_COMPUTE),
        ("-ctk q8_0 -ctv q8_0 -ub 64", LESS_CACHE | LESS_COMPUTE),
    ):
        try:
            if cost(**change) <= room:
                yield flags
                return
        except LlamapyError:
            continue


def _fewer(n: int) -> Iterator[int]:
    """Half as many, and again."""
    while n > 1:
        n //= 2
        yield n


def _share(params: ContextParams, n_seqs: int) -> dict[str, int]:
    """The sizes of so many of the sequences."""
    return {"n_seq_max": n_seqs, "n_ctx": -(-params.n_ctx * n_seqs // params.n_seq_max)}
