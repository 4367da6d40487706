"""Checks of finished plans that know nothing of how they were made.

Memory: no node writes a byte that holds a value somebody still reads. Structure: sources precede
uses, shapes follow the op's row, views lie inside their roots, addresses inside their buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from llamapy.graph.lives import ALSO_WRITES
from llamapy.graph.ops import OPS
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor

FOREVER = 1 << 60


def _executed(t: Tensor) -> bool:
    op = OPS.get(t.op)
    return op is None or not op.view


def _last_reads(nodes: Sequence[Tensor], keep: Iterable[Tensor]) -> dict[Tensor, int]:
    """Root -> the last step that reads it or a view of it. Outputs, and views that nobody reads,
    keep their root forever; so does a root that is missing here."""
    last: dict[Tensor, int] = {}
    read = {r for t in nodes for s in t.src for r in (s, s.root)}
    for step, t in enumerate(nodes):
        if _executed(t):
            last.update((s.root, step) for s in t.src)
    last.update((t.root, FOREVER) for t in keep)
    last.update((t.root, FOREVER) for t in nodes if t.flags & OUTPUT or t not in read)
    last.update((t.root, FOREVER) for t in read if t.flags & OUTPUT)
    return last


def _may_overwrite(node: Tensor, value: Tensor) -> bool:
    """`node` writes over `value` as it reads it: its row allows that for the one source that shows
    `value`, and element by element both have the same address."""
    op = OPS.get(node.op)
    if op is None:
        return False
    shows = [j for j, s in enumerate(node.src) if s.root is value]
    if len(shows) != 1 or shows[0] not in op.in_place:
        return False
    s = node.src[shows[0]]
    return s.same_layout(node) and s.home() == node.home()


def clashes(
    nodes: Sequence[Tensor], leafs: Iterable[Tensor] = (), keep: Iterable[Tensor] = ()
) -> list[tuple[str, str]]:
    """(writer, value) for every node that writes a byte of a value still to be read. `keep`: values
    that must outlive the run beside OUTPUTs and those that nobody reads."""
    last = _last_reads(nodes, keep)
    first = {t: None for t in leafs if t.view_src is None and t.buffer is not None}
    first.update((t, None) for t in nodes if t.flags & INPUT and t.view_src is None)
    found: list[tuple[str, str]] = []
    alive: dict[int, list[tuple[int, int, Tensor]]] = {}  # id of buffer -> [start, end, value]

    def write(t: Tensor, step: int) -> None:
        start, end = t.offset_bytes, t.offset_bytes + t.n_bytes
        there = alive.setdefault(id(t.buffer), [])
        there[:] = [a for a in there if last.get(a[2], FOREVER) >= step]
        for lo, hi, value in there:
            if lo < end and start < hi and value is not t:
                if last.get(value, FOREVER) == step and _may_overwrite(t, value):
                    continue
                found.append((t.name, value.name))
        there.append((start, end, t))

    for t in first:
        if t.buffer.usage == "compute":
            write(t, -1)
        else:  # weights and caches: two of them may be one
            end = t.offset_bytes + t.n_bytes
            alive.setdefault(id(t.buffer), []).append((t.offset_bytes, end, t))
    for step, t in enumerate(nodes):
        if t.view_src is None and t not in first:
            write(t, step)
        for i in ALSO_WRITES.get(t.op, ()):
            found += _over_state(t, t.src[i], alive, last, step)
    return found


def _over_state(
    node: Tensor,
    state: Tensor,
    alive: dict[int, list[tuple[int, int, Tensor]]],
    last: dict[Tensor, int],
    step: int,
) -> list[tuple[str, str]]:
    """Values, the state's own memory aside, that lie where `node` writes its state."""
    buffer, start = state.home()
    end = start + state.n_bytes
    return [
        (node.name, value.name)
        for lo, hi, value in alive.get(id(buffer), [])
        if lo < end and start < hi and value is not state.root and last.get(value, FOREVER) >= step
    ]


def faults(nodes: Sequence[Tensor], leafs: Iterable[Tensor] = ()) -> list[str]:
    """What is wrong with a graph or a plan, one line each; empty when nothing is."""
    found: list[str] = []
    seen = set(leafs)
    for t in nodes:
        for s in t.src:
            known = s in seen or s.root in seen or s.root.op == "none"
            if not known:
                found.append(f"{t.name}: reads {s.name}, which no earlier node computes")
        for i in ALSO_WRITES.get(t.op, ()):
            if t.src[i].root.op != "none":
                found.append(f"{t.name}: writes into {t.src[i].name}, which a node computes")
        seen.add(t)
        found += _shape_faults(t)
    for t in dict.fromkeys((*seen, *(s for n in nodes for s in n.src))):
        found += _place_faults(t)
    return found


def _shape_faults(t: Tensor) -> list[str]:
    op = OPS.get(t.op)
    if op is None:
        return [] if t.op == "none" else [f"{t.name}: no such op: {t.op}"]
    if not op.n_src[0] <= len(t.src) <= op.n_src[1]:
        return [f"{t.name}: {t.op} with {len(t.src)} sources"]
    missing = [name for name, _ in op.params if name not in t.params]
    if missing:
        return [f"{t.name}: {t.op} lacks parameter {missing[0]}"]
    try:
        type_, ne = op.rule(t.src, t.params)
    except (ValueError, KeyError) as e:
        return [f"{t.name}: {e}"]
    if (type_, ne) != (t.type, t.ne):
        return [f"{t.name}: {t.op} gives {type_.name}{list(ne)}, not {t.type.name}{list(t.ne)}"]
    return []


def _place_faults(t: Tensor) -> list[str]:
    root = t.view_src
    if root is not None:
        if root.view_src is not None:
            return [f"{t.name}: a view of the view {root.name}"]
        if t.view_offs < 0 or (t.n_bytes and t.view_offs + t.n_bytes > root.n_bytes):
            end = t.view_offs + t.n_bytes
            return [f"{t.name}: bytes {t.view_offs} to {end} of {root.name}'s {root.n_bytes}"]
        return []
    if t.buffer is None:
        return []
    end = t.offset_bytes + t.n_bytes
    if t.offset_bytes < 0 or end > t.buffer.n_bytes:
        return [f"{t.name}: bytes {t.offset_bytes} to {end} of a buffer of {t.buffer.n_bytes}"]
    if t.buffer.usage == "compute" and t.offset_bytes % t.buffer.type.alignment:
        return [f"{t.name}: offset {t.offset_bytes} in memory aligned to {t.buffer.type.alignment}"]
    return []


def check(
    nodes: Sequence[Tensor], leafs: Iterable[Tensor] = (), keep: Iterable[Tensor] = ()
) -> None:
    """Raises AssertionError with the first few faults of a plan: always a bug of ours."""
    leafs = list(leafs)
    wrong = faults(nodes, leafs)
    wrong += [f"{a} overwrites {b}, still needed" for a, b in clashes(nodes, leafs, keep)]
    if wrong:
        raise AssertionError("plan: " + "; ".join(wrong[:5]))
