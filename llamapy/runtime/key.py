"""When a graph may be run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from llamapy.kv.api import Step, Ubatch
from llamapy.models.builder import LOGITS, GraphShape


class GraphKey(NamedTuple):
    """Everything a graph's shape hangs on. Equal keys, equal graphs: reuse is `==`.

    What is fixed for a context (model, cache, options) stays out; what can change between steps and
    alters the graph goes in. Sizes of the cache come rounded up to 256 from the step."""

    n_tokens: int
    n_outputs: int
    sizes: tuple[int, ...]  # n_lists (with states: of runs, too), then n_kv of each cell group
    ends: str = LOGITS  # or EMBEDDINGS
    encodes: bool = False

    @classmethod
    def of(cls, ubatch: Ubatch, step: Step, ends: str) -> GraphKey:
        return cls(ubatch.n_tokens, ubatch.n_outputs, step.sizes, ends, ubatch.encodes)

    def shape(self) -> GraphShape:
        n_lists, *n_kv = self.sizes
        return GraphShape(
            self.n_tokens, self.n_outputs, n_lists, tuple(n_kv), self.ends, self.encodes
        )


@dataclass(slots=True)
class Counters:
    """How often a graph was built and how often it was run again."""

    built: int = 0
    reused: int = 0
