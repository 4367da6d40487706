"""Graphs that are ready to run, and those kept for more steps like those they were built for.

They share the compute buffers: inputs are written before every run and nothing in there outlives
one, so that a graph is as good as before until a buffer is opened anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from llamapy.base.types import I32
from llamapy.graph.compiled import Compiled
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import Floats, Ints
from llamapy.models.inputs import Place
from llamapy.runtime.key import GraphKey

N_KEPT = 4  # a prompt's and a token's, and what alternates with them
N_KEPT_ROUNDED = 32  # of a context whose sizes are rounded: see GraphKey.rounded
NODE_BYTES = 1850  # what a node takes: its record, its tensors, and Python's share


@dataclass(slots=True)
class Built:
    """A graph ready to run."""

    key: GraphKey
    inputs: list[Place]
    result: Floats | Ints  # [n_outputs, n_vocab or n_embd] or [n_outputs], a view of its buffer
    compiled: Compiled

    @property
    def n_bytes(self) -> int:
        """Memory it takes, compute buffers apart; an estimate."""
        return NODE_BYTES * len(self.compiled.order)


def read_rows(t: Tensor) -> Any:
    """A computed f32 tensor [n, rows] as array [rows, n], an i32 one [n] as [n]: a view of its
    buffer."""
    buffer, offset = t.home()
    assert buffer is not None
    data = buffer.read(offset, t.n_bytes)
    if t.type is I32:
        return np.frombuffer(data, np.int32)
    return np.frombuffer(data, np.float32).reshape(t.ne[1], t.ne[0])


class Kept:
    """The `most` graphs that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._graphs: dict[GraphKey, Built] = {}  # the one used last is the last one

    def get(self, key: GraphKey) -> Built | None:
        built = self._graphs.pop(key, None)
        if built is not None and not built.compiled.valid:
            self.clear()  # nor is any other
            return None
        if built is not None:
            self._graphs[key] = built
        return built

    def put(self, built: Built) -> None:
        self._graphs[built.key] = built
        while len(self._graphs) > self._most:
            del self._graphs[next(iter(self._graphs))]

    def clear(self) -> None:
        self._graphs.clear()

    @property
    def n_bytes(self) -> int:
        return sum(built.n_bytes for built in self._graphs.values())
