"""From a sequence of nodes to what the allocator needs: how large each tensor is, when it is born,
when it dies, and whose place it may take over. No address is chosen here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from llamapy.graph.cgraph import CGraph
from llamapy.graph.device import BufferType
from llamapy.graph.ops import ROWS
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor

START = -1  # born before the first node
NEVER = 1 << 60
VIEWS = frozenset(op.name for op in ROWS if op.view)
_IN_PLACE = {op.name: op.in_place for op in ROWS if op.in_place}
ALSO_WRITES = {op.name: op.also_writes for op in ROWS if op.also_writes}


@dataclass(slots=True)
class Lives:
    """One entry per tensor that needs memory of its own (no view, no buffer yet).
    `size` in bytes, rounded up to the alignment; `pool` is the index of its buffer type; alive from
    step `born` to step `dies`, both included, where a step is a place in the list of nodes; `takes`
    is the entry whose place it takes over while that one dies, or -1."""

    tensors: list[Tensor] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    pool: list[int] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    dies: list[int] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)

    def fits(self, limits: Lives) -> bool:
        """Whether addresses planned for `limits` hold for these: same lives, no tensor larger."""
        return (
            self.born == limits.born
            and self.dies == limits.dies
            and self.takes == limits.takes
            and self.pool == limits.pool
            and all(a <= b for a, b in zip(self.size, limits.size, strict=True))
        )


def kept(graph: CGraph) -> set[Tensor]:
    """Roots that must outlive the run: outputs, results that no node of the graph takes, states."""
    uses = graph.uses
    found = {t.view_src or t for t in graph.nodes if t.flags & OUTPUT or not uses[t]}
    found.update(t for t in graph.leafs if t.flags & OUTPUT)
    found.update(t.src[i].root for t in graph.nodes for i in ALSO_WRITES.get(t.op, ()))
    return found


def lives(
    nodes: Sequence[Tensor],
    leafs: Iterable[Tensor],
    keep: set[Tensor],
    bufts: Sequence[BufferType],
    pool_of: Mapping[Tensor, int],
) -> Lives:
    """Lives of a sequence of nodes (view nodes may be left out). `pool_of` gives an index into
    `bufts` for a tensor; those it does not name are in pool 0.

    An INPUT is alive from the start to its last reader: it has to be written before every run.
    """
    out = Lives()
    index, last = _births(nodes, leafs, out)
    get = pool_of.get
    pad = [b.alignment - 1 for b in bufts]
    for k, t in enumerate(out.tensors):
        pool = get(t, 0)
        out.pool.append(pool)
        out.size.append((bufts[pool].size_of(t) + pad[pool]) & ~pad[pool])
        at = last[k]
        out.dies.append(NEVER if at is None or t in keep else at)
        out.takes.append(-1)
    _take_over(out, index)
    return out


def _births(
    nodes: Sequence[Tensor], leafs: Iterable[Tensor], out: Lives
) -> tuple[dict[Tensor, int], list[int | None]]:
    """Entries (leafs and inputs, then nodes), and the last step that reads each, views included."""
    first = [t for t in leafs if t.buffer is None and t.view_src is None]
    first += [t for t in nodes if t.flags & INPUT and t.buffer is None and t.view_src is None]
    tensors = out.tensors = list(dict.fromkeys(first))
    born = out.born = [START] * len(tensors)
    index = {t: k for k, t in enumerate(tensors)}
    last: list[int | None] = [None] * len(tensors)

    def enter(t: Tensor, at: int) -> int:
        index[t] = len(tensors)
        tensors.append(t)
        born.append(at)
        last.append(None)
        return index[t]

    for step, t in enumerate(nodes):
        if t.view_src is not None:
            if t.op in VIEWS:
                continue
        elif t.buffer is None and t not in index:
            enter(t, step)
        for s in t.src:
            root = s.view_src or s
            if root.buffer is None:
                k = index.get(root)
                if k is None:
                    if root.op != "none" or root.src:
                        raise AssertionError(f"{t!r} (step {step}) reads {s!r}, which comes later")
                    k = enter(root, START)  # a constant that a device brought in
                last[k] = step
    return index, last


def _take_over(out: Lives, index: dict[Tensor, int]) -> None:
    """In place: the node's row allows it for that source, the source dies here, is referenced once
    (directly or through one view from its first byte) and has the node's layout."""
    born, dies, size, pool, takes = out.born, out.dies, out.size, out.pool, out.takes
    for k, t in enumerate(out.tensors):
        allowed = _IN_PLACE.get(t.op)
        if allowed is None or born[k] == START:
            continue
        src = t.src
        for j in allowed:
            if j >= len(src):
                break
            s = src[j]
            root = s.view_src or s
            i = index.get(root)
            if (
                i is not None
                and dies[i] == born[k]
                and pool[i] == pool[k]
                and s.view_offs == 0
                and t.same_layout(s)
                and 0 < size[k] <= size[i]
                and sum((o.view_src or o) is root for o in src) == 1
            ):
                takes[k] = i
                break
