"""A graph: tensors sorted so that each stands after its sources, with use counts of this graph."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from llamapy.graph.tensor import COMPUTE, Tensor

_uids = itertools.count(1)


class CGraph:
    """`leafs` are tensors without an op (weights, caches, inputs), `nodes` all others, views among
    them, in execution order. `uses` counts references as a source; it belongs to the graph, since
    a tensor can stand in several. `uid` changes whenever the graph does. Keys are tensors, by
    identity."""

    __slots__ = ("_partly", "leafs", "nodes", "uid", "uses")

    def __init__(self) -> None:
        self.nodes: list[Tensor] = []
        self.leafs: list[Tensor] = []
        self.uses: dict[Tensor, int] = {}
        self.uid = next(_uids)
        self._partly = False  # whether some nodes are sorted only, not to be computed

    def build_forward_expand(self, *outputs: Tensor) -> None:
        """Add all that `outputs` need and that is not there yet, sources left to right."""
        for out in outputs:
            self._sort(out, COMPUTE)
            if self._partly:
                _mark(out)
        self.uid = next(_uids)

    def build_forward_select(self, outputs: Sequence[Tensor], chosen: int) -> Tensor:
        """Sort all of `outputs` into the graph, but let only one be computed. Inputs of the others
        keep their place in memory, so whoever fills inputs need not know which one was chosen."""
        self._partly = True
        for i, out in enumerate(outputs):
            self._sort(out, COMPUTE if i == chosen else 0)
        _mark(outputs[chosen])
        self.uid = next(_uids)
        return outputs[chosen]

    def _sort(self, root: Tensor, flag: int) -> None:
        uses, nodes, leafs = self.uses, self.nodes, self.leafs
        stack = [] if root in uses else [root]
        while stack:
            t = stack[-1]
            for s in t.src:
                if s not in uses:
                    stack.append(s)
                    break
            else:
                stack.pop()
                uses[t] = 0
                for s in t.src:
                    uses[s] += 1
                if t.op == "none":
                    if not t.name:
                        t.name = f"leaf_{len(leafs)}"
                    leafs.append(t)
                else:
                    t.flags |= flag
                    if not t.name:
                        t.name = f"node_{len(nodes)}"
                    nodes.append(t)


def _mark(root: Tensor) -> None:
    """COMPUTE for `root` and all that it needs."""
    stack, seen = [root], {root}
    while stack:
        t = stack.pop()
        if t.op != "none":
            t.flags |= COMPUTE
        for s in t.src:
            if s not in seen:
                seen.add(s)
                stack.append(s)
