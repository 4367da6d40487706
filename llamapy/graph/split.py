"""Pass 5 of the scheduler: cut the nodes into runs of one device, and list what each copies in."""

from __future__ import annotations

from llamapy.graph.lives import VIEWS
from llamapy.graph.placing import Copy, Placing, Split, Why
from llamapy.graph.tensor import INPUT, Tensor

MAX_INPUTS = 30  # a split with more is cut: its copies all live at once


def cut(p: Placing) -> None:
    """A new split when the device changes (views never cut), when a weight must be copied and the
    split has inputs already (memory of the weights before can then be reused), or when the split
    has too many. Sources are redirected to one copy per (tensor, device)."""
    copies: dict[tuple[Tensor, int], Copy] = {}
    split: Split | None = None
    for at, t in enumerate(p.nodes):
        b = p.where[t].backend
        if t.op in VIEWS:
            if split is not None and b == split.backend:
                split.nodes.append(t)
            continue
        foreign = _foreign(p, t, b)
        new = [s for s in foreign if (s, b) not in copies]
        if split is None or split.backend != b or _must_cut(split, new):
            if split is not None:
                split.end = at
            split = Split(b, at if p.splits else 0)
            p.splits.append(split)
        for s in new:
            made = copies[s, b] = _copy(p, s, b)
            split.inputs.append(made)
        if foreign:
            t.src = tuple(copies[s, b].dst[0] if s in foreign else s for s in t.src)
        split.nodes.append(t)
    if split is not None:
        split.end = len(p.nodes)
    for made_split in p.splits:
        made_split.inputs.sort(key=lambda c: c.rank)


def _foreign(p: Placing, t: Tensor, b: int) -> list[Tensor]:
    """Sources that device `b` cannot read where they are."""
    if len(p.devices) == 1:
        return []
    found = [s for s in t.src if p.where[s].backend != b and not p.reaches(b, s)]
    return list(dict.fromkeys(found))


def _must_cut(split: Split, new: list[Tensor]) -> bool:
    if not split.inputs or not new:
        return False
    if len(split.inputs) + len(new) > MAX_INPUTS:
        return True
    roots = (s.view_src or s for s in new)
    return any(r.buffer is not None and r.buffer.usage == "weights" for r in roots)


def _copy(p: Placing, s: Tensor, b: int) -> Copy:
    # Twins of a pipeline must share their place with nothing, before or after: INPUT and kept.
    flags = INPUT if p.n_copies > 1 else 0
    dst = []
    for c in range(p.n_copies):
        name = f"{p.devices[b].name}#{s.name}#{c}"
        dst.append(Tensor(s.type, s.ne, nb=s.nb, src=(s,), name=name, flags=flags))
        p.where[dst[c]] = Why(b, "5.copy")
    return Copy(s, dst, p.where[s].backend)
