"""Fusions that no device needs to know of: two nodes become one of the ops there are, with the same
bits. The node that stays keeps its identity and says in `params["fused"]` what it swallowed. What
many nodes compute alike, the angles of rope, becomes a node of its own.

A rule may swallow an intermediate only when it has one use (so that no view hangs on it either), is
no OUTPUT, is computed exactly when the node that stays is, and reads nothing that the graph writes
into (a cache): it is computed later than it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from llamapy.base.types import F16, F32
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import OPS, make
from llamapy.graph.tensor import COMPUTE, OUTPUT, Tensor


@dataclass(frozen=True, slots=True)
class Scope:
    uses: dict[Tensor, int]
    written: set[Tensor]  # roots that some node writes into

    def may_swallow(self, t: Tensor, by: Tensor) -> bool:
        return (
            self.uses[t] == 1
            and not t.flags & OUTPUT
            and not (t.flags ^ by.flags) & COMPUTE
            and not any(s.root in self.written for s in t.src)
        )


Rule = Callable[[Tensor, Scope], Tensor | None]


def _is_row(t: Tensor, n: int) -> bool:
    return t.type is F32 and t.ne == (n, 1, 1, 1) and t.nb[0] == 4


def _swallow(node: Tensor, gone: Tensor, src: tuple[Tensor, ...]) -> Tensor:
    """`node` becomes `gone`'s op on other sources; it keeps its name, flags and readers."""
    node.params = {**gone.params, "fused": (f"{gone.op} {gone.name}", f"{node.op} {node.name}")}
    node.op, node.src = gone.op, src
    return gone


def norm_weight(node: Tensor, scope: Scope) -> Tensor | None:
    """mul(norm(x), w) -> norm(x, w), for a weight row w [n]; of either norm."""
    if node.op != "mul":
        return None
    norm, w = node.src
    if norm.op not in ("rms_norm", "norm") or len(norm.src) != 1 or not _is_row(w, norm.ne[0]):
        return None
    if not scope.may_swallow(norm, node):
        return None
    return _swallow(node, norm, (norm.src[0], w))


def norm_bias(node: Tensor, scope: Scope) -> Tensor | None:
    """add(norm(x, w), b) -> norm(x, w, b), for a bias row b [n]."""
    if node.op != "add":
        return None
    norm, b = node.src
    if norm.op != "norm" or len(norm.src) != 2 or not _is_row(b, norm.ne[0]):
        return None
    if not scope.may_swallow(norm, node):
        return None
    return _swallow(node, norm, (*norm.src, b))


def matmul_add(node: Tensor, scope: Scope) -> Tensor | None:
    """add(mul_mat(w, x), b) -> mul_mat(w, x, b), for a bias row or a residual of the result's
    shape, on either side. Of two matmuls the second operand's swallows the sum: it is the later one
    as graphs are built, so nothing has to live longer."""
    if node.op != "add":
        return None
    for product, b in (node.src[::-1], node.src):
        if (
            product.op == "mul_mat"
            and len(product.src) == 2
            and product.ne == node.ne
            and b is not product
            and ((b.ne == node.ne and b.type is F32 and b.nb[0] == 4) or _is_row(b, node.ne[0]))
            and scope.may_swallow(product, node)
        ):
            return _swallow(node, product, (*product.src, b))
    return None


SWALLOW: dict[str, Rule] = {
    "norm_weight": norm_weight,
    "norm_bias": norm_bias,
    "matmul_add": matmul_add,
}


def rope_tables(graph: CGraph, scope: Scope) -> None:
    """Ropes by the same angles, two or more, read them from one table, made before the first."""
    alike: dict[object, list[Tensor]] = {}
    for t in graph.nodes:
        if t.op == "rope" and not any(s.root in scope.written for s in t.src[1:]):
            values = tuple(map(str, t.params.values()))
            alike.setdefault((t.src[1:], t.flags & COMPUTE, values), []).append(t)
    before: dict[Tensor, Tensor] = {}
    for ropes in alike.values():
        by = ropes[0].src[1:]
        table = make("rope_table", *by, **ropes[0].params)
        if len(ropes) == 1 or any(t.ne[2] != table.ne[1] for t in ropes):
            continue
        before[ropes[0]] = table
        table.name = f"{ropes[0].name} (table)"
        table.flags |= ropes[0].flags & COMPUTE
        graph.uses[table] = len(ropes)
        for s in by:
            graph.uses[s] -= len(ropes) - 1
        for t in ropes:
            t.op, t.src, t.params = "rope_apply", (t.src[0], table), {"mode": t.params["mode"]}
    graph.nodes = [n for t in graph.nodes for n in ((before[t], t) if t in before else (t,))]


def rope_store(graph: CGraph, scope: Scope) -> None:
    """set_rows(cache, rope_apply(x, table) by head, ids) -> rope_set_rows(cache, x, ids, table)"""
    gone: set[Tensor] = set()
    for node in graph.nodes:
        if node.op != "set_rows" or node.src[0].type not in (F32, F16):
            continue
        cache, rows, ids = node.src
        turned = rows.src[0] if rows.op == "permute" else rows
        n, n_head, n_tokens, _ = turned.ne
        if (
            turned.op == "rope_apply"
            and rows.ne == (n, n_tokens, n_head, 1)
            and rows.nb[1:3] == (turned.nb[2], turned.nb[1])
            and ids.ne == (n_tokens, 1, 1, 1)
            and scope.may_swallow(turned, node)
            and scope.may_swallow(rows, node)
        ):
            _swallow(node, turned, (cache, turned.src[0], ids, turned.src[1]))
            node.op = "rope_set_rows"
            gone |= {turned, rows}
    graph.nodes = [t for t in graph.nodes if t not in gone]
    graph.uses = {t: n for t, n in graph.uses.items() if t not in gone}


RULES = (*SWALLOW, "rope_tables", "rope_store")


def fuse(graph: CGraph, off: Collection[str] = ()) -> CGraph:
    """A new graph of the same tensors with all RULES applied but those named in `off`. `graph` is
    consumed: nodes that swallow others, or read a table, are changed in place."""
    assert set(RULES) >= set(off), (sorted(off), sorted(RULES))
    rules = [rule for name, rule in SWALLOW.items() if name not in off]
    written = {t.root for t in graph.nodes if OPS[t.op].writes_src}
    written |= {t.src[i].root for t in graph.nodes for i in OPS[t.op].also_writes}
    scope = Scope(graph.uses, written)
    gone: set[Tensor] = set()
    for node in graph.nodes:
        for rule in rules:
            swallowed = rule(node, scope)
            if swallowed is not None:
                gone.add(swallowed)
                break
    out = CGraph()
    out.leafs = graph.leafs
    out.nodes = [t for t in graph.nodes if t not in gone]
    out.uses = {t: n for t, n in graph.uses.items() if t not in gone}
    if "rope_tables" not in off:
        rope_tables(out, scope)
    if "rope_store" not in off:
        rope_store(out, scope)
    return out
