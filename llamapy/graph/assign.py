"""Passes 1 to 4 of the scheduler: which device runs each node, and why.

Every pass takes the same `Placing` and writes decisions with their causes into `where`:
  1.dst    has memory already              3.up     a better device that shares the memory
  1.vsrc   views such memory               3.best   the device that reaches most of its sources
  1.stN    writes into source N            4.vsrc   views a decided tensor
  1.inp    a graph input
  1.wgtN   source N is a weight            4.cur    source of a decided node
  1.off    a device wants host weights     4.first  the first device that can
  2.sup    neighbour of a decided node
and later: 5.copy (made by the cut), 5.prep (made by the device when it prepared the split).
"""

from __future__ import annotations

from collections.abc import Iterable

from llamapy.base.errors import LlamapyError
from llamapy.graph.lives import ALSO_WRITES, VIEWS
from llamapy.graph.placing import Placing, Why
from llamapy.graph.tensor import INPUT, Tensor

# Sources too small to decide where an op runs: rope's frequency factors, attention sinks.
_SAY_NOTHING = {
    "rope": (2,),
    "rope_table": (1,),
    "flash_attn": (5, 6),
    "flash_attn_merge": (1,),
}


def pin(p: Placing) -> None:
    """Pass 1: facts."""
    for t in (*p.leafs, *p.nodes):
        why = _fact(p, t)
        if why is not None:
            p.where[t] = why


def _fact(p: Placing, t: Tensor) -> Why | None:
    root = t.view_src or t
    if root.buffer is not None:
        b = p.home_of(root, t)
        if b is None:
            kind = root.buffer.type.name
            raise LlamapyError(f"{t.name}: no device runs {t.op} on memory of type {kind}")
        return Why(b, "1.dst" if root is t else "1.vsrc")
    for i in ALSO_WRITES.get(t.op, ()):
        if t.src[i].root.buffer is not None:
            return _by_state(p, t, i)
    if t.flags & INPUT:
        return Why(len(p.devices) - 1, "1.inp")
    if t.op not in VIEWS:
        for i, s in enumerate(t.src):
            weight = s.view_src or s
            if weight.buffer is not None and weight.buffer.usage == "weights":
                if i in _SAY_NOTHING.get(t.op, ()):
                    continue
                return _by_weight(p, t, weight, i)
    return None


def _by_state(p: Placing, t: Tensor, i: int) -> Why:
    """Where the state lies that `t` writes: a copy of it would be lost."""
    root = t.src[i].root
    home = p.home_of(root, t)
    if home is None:
        raise LlamapyError(
            f"{t.name}: no device runs {t.op} on memory of type {root.buffer.type.name}"
        )
    return Why(home, f"1.st{i}")


def _by_weight(p: Placing, t: Tensor, weight: Tensor, i: int) -> Why | None:
    home = p.home_of(weight, t)
    if home is not None and home == len(p.devices) - 1 and weight.buffer.type.host:
        for b in range(home):
            if p.devices[b].wants_offload(t) and p.can_run(b, t):
                return Why(b, "1.off")
    return None if home is None else Why(home, f"1.wgt{i}")


def spread(p: Placing) -> None:
    """Pass 2: to unassigned neighbours, devices first, so that the CPU gets work only next to its
    own weights or between its own nodes."""
    free = [t for t in p.nodes if t.view_src is None]
    if all(t in p.where for t in free):
        return
    for with_cpu in (False, True):
        _sweep(p, free, with_cpu)
        _sweep(p, reversed(free), with_cpu)


def _sweep(p: Placing, nodes: Iterable[Tensor], with_cpu: bool) -> None:
    last = len(p.devices) - 1
    now: int | None = None
    for t in nodes:
        at = p.where.get(t)
        if at is not None:
            now = at.backend if with_cpu or at.backend != last else None
        elif now is not None and p.can_run(now, t):
            p.where[t] = Why(now, "2.sup")


def upgrade(p: Placing) -> None:
    """Pass 3: to a better device that shares the memory; what is still open goes to the device that
    reaches most of its sources."""
    if len(p.devices) == 1:
        return
    for t in p.nodes:
        if t.view_src is not None:
            continue
        at = p.where.get(t)
        if at is None:
            _most_sources(p, t)
        elif t.buffer is None:
            for b in range(at.backend):
                if (
                    p.bufts[b] == p.bufts[at.backend]
                    and p.can_run(b, t)
                    and all(p.reaches(b, s) for s in t.src)
                ):
                    p.where[t] = Why(b, "3.up")
                    break


def _most_sources(p: Placing, t: Tensor) -> None:
    best, most = None, -1
    for b in range(len(p.devices)):
        if p.can_run(b, t):
            n = sum(p.reaches(b, s) for s in t.src)
            if n > most:
                best, most = b, n
    if best is not None:
        p.where[t] = Why(best, "3.best")


def fill(p: Placing) -> None:
    """Pass 4: views go with their root, sources with their reader; nothing stays open."""
    where = p.where
    for t in p.nodes:
        at = where.get(t)
        if at is None:
            root = where.get(t.view_src) if t.view_src is not None else None
            at = where[t] = Why(root.backend, "4.vsrc") if root is not None else _first(p, t)
        for s in t.src:
            if s not in where:
                root = where.get(s.view_src) if s.view_src is not None else None
                where[s] = Why(*(root.backend, "4.vsrc") if root else (at.backend, "4.cur"))
    for t in p.leafs:
        if t not in where:
            where[t] = Why(len(p.devices) - 1, "4.first")


def _first(p: Placing, t: Tensor) -> Why:
    for b in range(len(p.devices)):
        if p.can_run(b, t):
            return Why(b, "4.first")
    kinds = ", ".join(s.type.name for s in t.src)
    names = ", ".join(d.name for d in p.devices)
    raise LlamapyError(f"{t.name}: no device runs {t.op} of {kinds} (asked: {names})")


PASSES = (pin, spread, upgrade, fill)
