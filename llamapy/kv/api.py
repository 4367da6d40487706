"""What a memory is, as models and runtime see it.

A batch step is consumed ubatch by ubatch: `begin` chooses cells and changes nothing, `apply` is the
one call that edits the books, `revert` takes it back when the run failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from llamapy.graph.tensor import Tensor

Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]


_COUNTED: Ints = np.arange(1 << 15, dtype=np.int32)
_COUNTED.flags.writeable = False


def counted(first: int, n: int) -> Ints:
    """first, first + 1, ... as int32[n], not to be written to: a view is quicker had than made."""
    if 0 <= first <= len(_COUNTED) - n:
        return _COUNTED[first : first + n]
    return np.arange(first, first + n, dtype=np.int32)


def ints(values: Sequence[int]) -> Ints:
    return np.array(values, np.int32)


def floats(values: Sequence[float]) -> Floats:
    return np.array(values, np.float32)


@dataclass(slots=True, eq=False)  # frozen, it would take three times as long to make
class Ubatch:
    """A physical batch. `seqs[i]` are the sequences token i belongs to, which are the same up to
    there: it attends to the first.
    `outputs` are the rows whose logits are wanted, ascending; `order` their places in the caller's
    result. `encodes`: the tokens are a text for an encoder, and nothing comes back."""

    tokens: Ints  # [n_tokens]
    pos: Ints  # [n_tokens]
    seqs: tuple[tuple[int, ...], ...]
    outputs: Ints  # [n_outputs]
    order: Ints  # [n_outputs]
    encodes: bool = False

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def n_outputs(self) -> int:
        return len(self.outputs)

    def temperatures(self, scale: float, floor: int, offset: float) -> Floats:
        """By position: 1 + scale * log(1 + floor((pos + offset) / floor)). [n_tokens]"""
        steps = np.floor((self.pos + offset) / floor)
        return (np.log(steps + 1.0) * scale + 1.0).astype(np.float32)


WINDOWS = ("sliding", "chunked", "symmetric")
CUTS = ("anywhere", "runs", "whole")

# What a layer carries from token to token: by name, the shape of one sequence's state (f32).
States = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class CacheShape:
    """What attention keeps, layer by layer: heads of K and V (0: the layer keeps none) and the
    elements of one of them.

    A query of a layer with `is_swa` sees, by `window`: 'sliding', the last `n_swa` positions, its
    own included; 'chunked', those from the last multiple of `n_swa` on; 'symmetric', `n_swa` // 2
    to either side. Without `causal` a query also sees what comes after it, so that a sequence is
    computed in one go. `v_is_k`: V is the first n_embd_head_v elements of each K and has no memory
    of its own. `share[il]` is the layer whose K and V layer `il` reads, itself or an earlier one.
    Empty `is_swa`, `v_is_k` and `share` stand for none. `text`: what is kept of the texts that an
    encoder has read."""

    n_head_kv: tuple[int, ...]
    n_embd_head_k: tuple[int, ...]
    n_embd_head_v: tuple[int, ...]
    is_swa: tuple[bool, ...] = ()
    n_swa: int = 0
    window: str = "sliding"
    causal: bool = True
    v_is_k: tuple[bool, ...] = ()
    share: tuple[int, ...] = ()
    text: CacheShape | None = None

    def __post_init__(self) -> None:
        n = len(self.n_head_kv)
        for name, value in (("is_swa", False), ("v_is_k", False)):
            if not getattr(self, name):
                object.__setattr__(self, name, (value,) * n)
        if not self.share:
            object.__setattr__(self, "share", tuple(range(n)))
        for name in ("n_embd_head_k", "n_embd_head_v", "is_swa", "v_is_k", "share"):
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} of {len(getattr(self, name))} layers, not {n}")
        if self.window not in WINDOWS or (self.window == "symmetric" and self.causal):
            raise ValueError(f"window {self.window!r}, causal={self.causal}")
        if any(self.is_swa) and self.n_swa < 1:
            raise ValueError("window layers, and no window")
        for il, of in enumerate(self.share):
            if of != il and not (0 <= of < il and self.share[of] == of):
                raise ValueError(f"layer {il} cannot share the cache of layer {of}")

    def owns(self, il: int) -> bool:
        """Whether layer `il` has K and V of its own."""
        return self.n_head_kv[il] > 0 and self.share[il] == il


class LayerCache(NamedTuple):
    """K and V of one layer, `[n_embd_head_*, n_cells, n_head_kv]`, and the cell group they belong
    to. Where V is a part of K, `v` is a view of `k`: what is read of a graph's new K is
    `view(new_k, v.ne, v.nb[1:])`."""

    k: Tensor
    v: Tensor
    group: int


@dataclass(slots=True)
class GroupView:
    """What one ubatch needs of one cell group; the arrays are valid after `apply`."""

    rows: Ints  # [n_tokens], the cells that take the new K and V
    idx: Ints  # [n_lists, n_kv], cells in position order or -1
    range: Ints  # [n_tokens, 4], list, lo, hi, own place


class SavedReader(Protocol):
    """Of a saved sequence (saved.Reader): FileError for what is not there or out of bounds."""

    n_ctx: int

    def take(self, n_bytes: int, what: str) -> memoryview: ...

    def number(self, what: str, least: int, most: int) -> int: ...

    def positions(self, what: str) -> Ints: ...


class Loading(NamedTuple):
    """A sequence about to be loaded: its last position, and what puts it in its place."""

    last: int
    finish: Callable[[], None]


class Step(Protocol):
    """One ubatch against the memory. `sizes` shape the graph: (n_lists, n_kv of each group). A
    memory with states cuts ubatches into runs (`Memory.cut`), and each list has one run: there
    n_runs is n_lists. `runs` is valid after `begin`. `revert` also takes back an `apply` that broke
    off."""

    sizes: tuple[int, ...]
    views: list[GroupView]
    runs: Ints  # [n_runs, 4]: first row, number of tokens, cell to read (-1: all zero), to write

    def apply(self) -> None: ...

    def revert(self) -> None: ...


class Memory(Protocol):
    """`cut` says how a batch becomes ubatches: 'anywhere'; in 'runs', where tokens of the same
    sequences follow each other and no two runs of a ubatch have a sequence in common; 'whole', runs
    that are never cut. `n_bytes` are opened until `free`."""

    cut: str

    @property
    def n_bytes(self) -> int: ...

    def free(self) -> None: ...

    def layer(self, il: int) -> LayerCache:
        """LookupError for a layer without attention."""

    def state(self, il: int) -> Mapping[str, Tensor]:
        """States of a layer by name, f32 [shape.., n_cells]; empty for a layer without."""

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
        """Share cells. UsageError, and nothing changed, when dst has such positions already, the
        memory has forgotten what the next token would see, or states have no such part."""

    def seq_keep(self, seq: int) -> None: ...

    def describe(self) -> dict[str, Any]:
        """What a saved sequence must agree with, as JSON can say it."""

    def save(self, seq: int) -> Iterator[bytes]:
        """What is kept of a sequence."""

    def plan_load(self, seq: int, reader: SavedReader) -> Loading:
        """Read what `save` wrote, for an empty sequence, check it and find room; nothing is changed
        yet. FileError for what cannot be, ContextError when there is no room."""
