"""The scheduler: assign (passes 1 to 4), cut (pass 5), prepare, allocate, lower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llamapy.base import flags
from llamapy.graph import verify
from llamapy.graph.alloc import GraphAllocator
from llamapy.graph.assign import PASSES
from llamapy.graph.cgraph import CGraph
from llamapy.graph.compiled import Compiled
from llamapy.graph.device import BufferType, Device, Program
from llamapy.graph.lives import Lives, kept, lives
from llamapy.graph.placing import Placing, Split, Why
from llamapy.graph.split import cut
from llamapy.graph.tensor import COMPUTE, Tensor


@dataclass(slots=True)
class Layout:
    """A graph after the passes and after the devices have prepared their splits."""

    placing: Placing
    order: list[Tensor]  # copies, then prepared nodes, split by split: what the allocator sees
    keep: set[Tensor]
    lives: Lives


class Scheduler:
    """Devices by priority, the CPU last; `bufts[i]` is the memory device i computes in (its default
    when not given). State: the compute buffers. A graph handed in is consumed: its tensors get
    buffers. `n_copies` > 1 lets that many runs overlap on asynchronous devices.

    Inputs are written through `tensor.buffer.write(tensor.offset_bytes, data)` before every run,
    also before a repeated one: their place may be reused once their last reader has run.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        bufts: Sequence[BufferType] | None = None,
        n_copies: int = 1,
    ) -> None:
        self.devices = list(devices)
        self.bufts = list(bufts) if bufts is not None else [d.default_buft for d in devices]
        self.n_copies = n_copies
        pools = list(dict.fromkeys(self.bufts))
        self._pool_of = [pools.index(b) for b in self.bufts]
        owners = [self.devices[self.bufts.index(b)] for b in pools]
        self._allocator = GraphAllocator(list(zip(owners, pools, strict=True)))

    @property
    def n_reallocs(self) -> int:
        """Times `compile` had to open memory that no `reserve` had foreseen."""
        return self._allocator.n_grown

    def reserve(self, graph: CGraph) -> dict[str, int]:
        """Make room for this worst case. Returns the bytes per device of the plan that holds for
        it: its own, or one reserved before."""
        return self._allocator.by_device(self._allocator.reserve(self._lay_out(graph).lives))

    def compile(self, graph: CGraph) -> Compiled:
        """Assign, split, prepare, place and lower. Raises LlamapyError for an op that no device
        runs, and MemoryBudgetError when a buffer cannot be opened."""
        laid = self._lay_out(graph)
        p = laid.placing
        self._allocator.alloc(laid.lives, strict=flags.switch("LLAMAPY_STRICT_REUSE"))
        if flags.switch("LLAMAPY_VERIFY"):
            verify.check(laid.order, graph.leafs, laid.keep)
        n_programs = self.n_copies if any(split.inputs for split in p.splits) else 1
        programs = [self._lower(p.splits, c) for c in range(n_programs)]
        return Compiled(p, graph, laid.order, programs, self._allocator)

    def buffer_bytes(self) -> dict[str, int]:
        """Bytes of open compute memory per device."""
        return self._allocator.by_device(self._allocator.n_bytes())

    def free(self) -> None:
        """Close the compute buffers. Compiled graphs are void."""
        self._allocator.free()

    def _lay_out(self, graph: CGraph) -> Layout:
        nodes = [t for t in graph.nodes if t.flags & COMPUTE]
        p = Placing(nodes, graph.leafs, self.devices, self.bufts, self.n_copies)
        for decide in (*PASSES, cut):
            decide(p)
        keep = kept(graph)
        _prepare(p, keep)
        pool_of: dict[Tensor, int] = {}
        if len(self._allocator.targets) > 1:
            pool_of = {t: self._pool_of[why.backend] for t, why in p.where.items()}
        order: list[Tensor] = []
        for split in p.splits:
            for copy in split.inputs:
                order += copy.dst
                if self.n_copies > 1:  # the run before may still read them
                    keep.update(copy.dst)
            order += split.nodes
        bufts = [buft for _, buft in self._allocator.targets]
        return Layout(p, order, keep, lives(order, graph.leafs, keep, bufts, pool_of))

    def _lower(self, splits: list[Split], c: int) -> list[Program]:
        """Programs of all splits for pipeline copy `c`: the nodes name the first twin of each
        copied tensor, so that one stands in for twin `c` while addresses are taken."""
        firsts = [(copy.dst[0], copy.dst[c]) for split in splits for copy in split.inputs]
        places = [(first.buffer, first.offset_bytes) for first, _ in firsts]
        for first, twin in firsts:
            first.buffer, first.offset_bytes = twin.buffer, twin.offset_bytes
        programs = [self.devices[split.backend].lower(split.nodes) for split in splits]
        for (first, _), place in zip(firsts, places, strict=True):
            first.buffer, first.offset_bytes = place
        return programs


def _prepare(p: Placing, keep: set[Tensor]) -> None:
    """Let each device rewrite its splits, telling it which tensors are read outside of them."""
    made_in = {t: i for i, split in enumerate(p.splits) for t in split.nodes}
    outside = [{id(t) for t in keep} for _ in p.splits]
    if len(p.splits) > 1:
        for i, split in enumerate(p.splits):
            read = [s.root for t in split.nodes for s in t.src]
            for root in (*read, *(copy.src.root for copy in split.inputs)):
                if made_in.get(root, i) != i:
                    outside[made_in[root]].add(id(root))
    for split, needed in zip(p.splits, outside, strict=True):
        split.nodes = p.devices[split.backend].prepare(split.nodes, needed)
        for t in split.nodes:
            if t not in p.where:
                p.where[t] = Why(split.backend, "5.prep")
