"""When a graph may be run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from llamapy.graph.tensor import Tensor
from llamapy.kv.api import Step, Ubatch
from llamapy.models.builder import LOGITS, GraphShape


def unit_of(n_layer: int, weights: Mapping[str, Tensor]) -> int:
    """How many tokens are computed in half the time that building their graph takes, about 0.4 ms a
    layer, at 5 ps a weight and token: a power of two, 1 to 32."""
    n = n_layer * 4e7 / max(sum(t.n_elements for t in weights.values()), 1)
    return 1 << max(min(int(n), 32).bit_length() - 1, 0)


def rounded(n: int, unit: int) -> int:
    """A size that many share: a multiple of `unit`; of two where a step is a token a sequence. For
    no unit, n."""
    if n < 5 or not unit:
        return n
    unit = unit if n > 16 else 2
    return -(-n // unit) * unit


class GraphKey(NamedTuple):
    """Everything a graph's shape hangs on. Equal keys, equal graphs: reuse is `==`.

    What is fixed for a context (model, cache, options) stays out; what can change between steps and
    alters the graph goes in. Sizes of the cache come rounded up to 256 from the step."""

    n_tokens: int
    n_outputs: int
    sizes: tuple[int, ...]  # n_lists (with states: of runs, too), then n_kv of each cell group
    ends: str = LOGITS  # or EMBEDDINGS, HIGHEST
    encodes: bool = False

    @classmethod
    def of(cls, ubatch: Ubatch, step: Step, ends: str) -> GraphKey:
        return cls(ubatch.n_tokens, ubatch.n_outputs, step.sizes, ends, ubatch.encodes)

    def rounded(self, unit: int, n_ubatch: int, n_lists: int) -> GraphKey:
        """The key of a graph that serves this one and others: tokens, outputs and lists are filled
        up with the last one of each (inputs.fill), which computes and stores the same once more.
        It does not pay for one prompt, but where many of all lengths would be built for."""
        n_tokens = min(rounded(self.n_tokens, unit), n_ubatch)
        n_outputs = min(rounded(self.n_outputs, unit), n_ubatch)
        if n_outputs == n_tokens and self.n_outputs < self.n_tokens:
            n_outputs = self.n_outputs  # a graph that gives every row does not choose any
        sizes = (n_lists, *self.sizes[1:])
        return GraphKey(n_tokens, n_outputs, sizes, self.ends, self.encodes)

    def shape(self) -> GraphShape:
        n_lists, *n_kv = self.sizes
        return GraphShape(
            self.n_tokens, self.n_outputs, n_lists, tuple(n_kv), self.ends, self.encodes
        )


@dataclass(slots=True)
class Counters:
    """How often a graph was built and how often it was run again; the time all runs took."""

    built: int = 0
    reused: int = 0
    seconds: float = 0.0
