"""A compiled graph as text, as Graphviz dot, or as JSON. Pure functions: they print nothing and
change nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from llamapy.graph.compiled import Compiled
from llamapy.graph.lives import VIEWS
from llamapy.graph.placing import Copy, Split
from llamapy.graph.tensor import INPUT, OUTPUT, PARAM, Tensor

_FLAGS = ((INPUT, "input"), (OUTPUT, "output"), (PARAM, "param"))


def size(n_bytes: int) -> str:
    """1536 -> '1.5 KiB'"""
    value, unit = float(n_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"


def shape(t: Tensor) -> str:
    """Type and axes without the ones at the end: 'f32[576, 512]'"""
    ne = list(t.ne)
    while len(ne) > 1 and ne[-1] == 1:
        ne.pop()
    return f"{t.type.name}{ne}"


def _place(t: Tensor, compiled: Compiled) -> str:
    """'CPU+4096': buffer type, which chunk where there are several, and offset."""
    buffer, offset = t.home()
    if buffer is None:
        return "-"
    chunk = compiled.chunk_of(buffer)
    return f"{buffer.type.name}{f'.{chunk}' if chunk else ''}+{offset}"


def _fused(t: Tensor) -> list[str]:
    return list(t.params.get("fused", ()))


def _executed(split: Split) -> list[Tensor]:
    return [t for t in split.nodes if t.op not in VIEWS]


def _copy(compiled: Compiled, copy: Copy) -> dict[str, Any]:
    return {
        "name": copy.src.name,
        "bytes": copy.src.n_bytes,
        "from": compiled.devices[copy.src_backend].name,
        "twins": len(copy.dst),
    }


def _node(compiled: Compiled, t: Tensor) -> dict[str, Any]:
    why = compiled.why[t]
    return {
        "name": t.name,
        "op": t.op,
        "type": t.type.name,
        "ne": list(t.ne),
        "nb": list(t.nb),
        "bytes": t.n_bytes,
        "place": _place(t, compiled),
        "device": compiled.devices[why.backend].name,
        "cause": why.cause,
        "fused": _fused(t),
        "flags": [name for bit, name in _FLAGS if t.flags & bit],
        "params": {k: v for k, v in t.params.items() if k != "fused"},
        "src": [_source(s) for s in t.src],
    }


def _source(s: Tensor) -> dict[str, Any]:
    found: dict[str, Any] = {"name": s.name, "type": s.type.name, "ne": list(s.ne)}
    if s.view_src is not None:
        found["view_of"], found["view_offs"] = s.view_src.name, s.view_offs
    return found


def as_dict(compiled: Compiled) -> dict[str, Any]:
    """Everything the text shows, in lists and dicts."""
    splits = [
        {
            "device": compiled.devices[split.backend].name,
            "first": split.start,
            "end": split.end,
            "inputs": [_copy(compiled, copy) for copy in split.inputs],
            "nodes": [_node(compiled, t) for t in _executed(split)],
        }
        for split in compiled.splits
    ]
    inputs = [
        {"name": t.name, "type": t.type.name, "ne": list(t.ne), "place": _place(t, compiled)}
        for t in compiled.inputs
    ]
    return {"buffer_bytes": compiled.buffer_bytes, "inputs": inputs, "splits": splits}


def text(compiled: Compiled, *, why: bool = True) -> str:
    """A line per buffer, input, split and node. `why` adds the cause of each placement."""
    lines = [f"buffer {name}: {size(n)} ({n})" for name, n in compiled.buffer_bytes.items()]
    lines += [f"input {t.name} {shape(t)} {_place(t, compiled)}" for t in compiled.inputs]
    n = 0
    for i, split in enumerate(compiled.splits):
        nodes = _executed(split)
        head = (
            f"split {i} {compiled.devices[split.backend].name} nodes {split.start}..{split.end - 1}"
        )
        copies = [f"{c.src.name} ({size(c.src.n_bytes)})" for c in split.inputs]
        lines.append(f"{head}, {len(nodes)} run; inputs: {', '.join(copies) or 'none'}")
        for t in nodes:
            lines.append(f"  {n:4d} {_line(compiled, t, why)}")
            n += 1
    return "\n".join(lines) + "\n"


def _line(compiled: Compiled, t: Tensor, why: bool) -> str:
    at = compiled.why[t]
    parts = [t.name, t.op, shape(t), _place(t, compiled), size(t.n_bytes)]
    parts.append(compiled.devices[at.backend].name)
    if why:
        parts.append(at.cause)
    if t.flags & OUTPUT:
        parts.append("output")
    if _fused(t):
        parts.append(f"fused({' + '.join(_fused(t))})")
    return " ".join(parts) + " <- " + ", ".join(_source_text(s) for s in t.src)


def _source_text(s: Tensor) -> str:
    if s.view_src is None:
        return f"{s.name} {shape(s)}"
    return f"{s.name} {shape(s)} in {s.view_src.name}+{s.view_offs}"


def dot(compiled: Compiled) -> str:
    """A digraph with a cluster per split; weights and caches are left out."""
    ids: dict[Tensor, str] = {}
    lines = ["digraph llamapy {", "  rankdir=TB; node [shape=box, fontname=monospace];"]
    for t in compiled.inputs:
        ids[t] = f"i{len(ids)}"
        lines.append(f"  {ids[t]} [label={_quote(t.name, shape(t))}, style=rounded];")
    for i, split in enumerate(compiled.splits):
        lines.append(f"  subgraph cluster_{i} {{")
        lines.append(f"    label={_quote(f'{i} {compiled.devices[split.backend].name}')};")
        for t in _executed(split):
            ids[t] = f"n{len(ids)}"
            lines.append(f"    {ids[t]} [label={_quote(t.name, t.op, shape(t))}];")
        lines.append("  }")
    lines += _edges(compiled, ids)
    return "\n".join([*lines, "}"]) + "\n"


def _edges(compiled: Compiled, ids: dict[Tensor, str]) -> list[str]:
    origin = {d: copy.src for split in compiled.splits for copy in split.inputs for d in copy.dst}
    lines = []
    for split in compiled.splits:
        for t in _executed(split):
            for s in t.src:
                root = s.root
                copied = root in origin
                root = origin[root].root if copied else root
                if root in ids:
                    style = " [style=dashed]" if copied else ""
                    lines.append(f"  {ids[root]} -> {ids[t]}{style};")
    return lines


def _quote(*parts: str) -> str:
    escaped = (p.replace("\\", "\\\\").replace('"', '\\"') for p in parts)
    return '"' + "\\n".join(escaped) + '"'


FORMATS: dict[str, Callable[[Compiled], str]] = {
    "text": text,
    "dot": dot,
    "json": lambda compiled: json.dumps(as_dict(compiled), indent=1) + "\n",
}


def dump(compiled: Compiled, format: str = "text") -> str:
    """`format` is a key of FORMATS."""
    return FORMATS[format](compiled)
