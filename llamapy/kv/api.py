"""What a memory is, as models and runtime see it.

A batch step is consumed ubatch by ubatch: `begin` chooses cells and changes nothing, `apply` is the
one call that edits the books, `revert` takes it back when the run failed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from llamapy.graph.tensor import Tensor

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Ubatch:
    """A physical batch. `seqs[i]` are the sequences token i belongs to, which are the same up to
    there: it attends to the first.
    `outputs` are the rows whose logits are wanted, ascending; `order` their places in the caller's
    result."""

    tokens: Ints  # [n_tokens]
    pos: Ints  # [n_tokens]
    seqs: tuple[tuple[int, ...], ...]
    outputs: Ints  # [n_outputs]
    order: Ints  # [n_outputs]

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def n_outputs(self) -> int:
        return len(self.outputs)


class LayerCache(NamedTuple):
    """K and V of one layer, `[n_embd_head_*, n_cells, n_head_kv]`, and the cell group they belong
    to."""

    k: Tensor
    v: Tensor
    group: int


@dataclass(slots=True)
class GroupView:
    """What one ubatch needs of one cell group; the arrays are valid after `apply`."""

    rows: Ints  # [n_tokens], the cells that take the new K and V
    idx: Ints  # [n_lists, n_kv], cells in position order or -1
    range: Ints  # [n_tokens, 4], list, lo, hi, own place


class Step(Protocol):
    """One ubatch against the memory. `sizes` shape the graph: (n_lists, n_kv of each group).
    `revert` also takes back an `apply` that broke off."""

    sizes: tuple[int, ...]
    views: list[GroupView]

    def apply(self) -> None: ...

    def revert(self) -> None: ...


class Memory(Protocol):
    def layer(self, il: int) -> LayerCache: ...

    def begin(self, ubatch: Ubatch) -> Step:
        """Choose cells. Raises ContextError when there is no room; nothing is changed."""

    def worst_sizes(self, n_tokens: int, n_seqs: int) -> tuple[int, ...]:
        """The largest `Step.sizes` a ubatch of that shape can have."""

    def pos_max(self, seq: int) -> int:
        """The last position of a sequence, -1 when it is empty."""

    def twins(self, seq: int) -> set[int]:
        """The sequences that are the same as `seq` in every cell, itself included."""

    def clear(self) -> None: ...

    def seq_rm(self, seq: int, p0: int, p1: int) -> bool:
        """Drop positions [p0, p1). False, and nothing changed, when the memory cannot."""

    def seq_cp(self, src: int, dst: int, p0: int, p1: int) -> None:
        """Share cells. UsageError, and nothing changed, when dst has such positions already, or the
        memory has forgotten what the next token would see."""

    def seq_keep(self, seq: int) -> None: ...
