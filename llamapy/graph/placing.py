"""What the passes of the scheduler share: decisions with their causes, splits, copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from llamapy.graph.device import BufferType, Device
from llamapy.graph.lives import VIEWS
from llamapy.graph.tensor import INPUT, Tensor


class Why(NamedTuple):
    backend: int  # index into the devices, which are listed by priority
    cause: str


@dataclass(slots=True)
class Copy:
    """`src` lives where the split's device cannot read it; `dst` has a twin per pipeline copy, in
    the device's own memory and with the layout of `src`."""

    src: Tensor
    dst: list[Tensor]
    src_backend: int

    @property
    def rank(self) -> int:
        """Order within a split: activations and inputs, weights of devices, host weights."""
        buffer = self.src.root.buffer
        if buffer is None or buffer.usage != "weights":
            return 0
        return 2 if buffer.type.host else 1

    @property
    def is_user_input(self) -> bool:
        return bool(self.src.root.flags & INPUT)


@dataclass(slots=True)
class Split:
    """Nodes `start` to `end` (views counted) of the graph on one device. `nodes` are what the
    device makes of them once it has prepared the split."""

    backend: int
    start: int
    end: int = 0
    nodes: list[Tensor] = field(default_factory=list)
    inputs: list[Copy] = field(default_factory=list)


@dataclass(slots=True)
class Placing:
    """What the passes share. `bufts[b]` is where device b puts its results. `nodes` has views in
    it; nodes that are not to be computed are left out. Pass 5 (split.py) fills `splits`."""

    nodes: list[Tensor]
    leafs: list[Tensor]
    devices: Sequence[Device]
    bufts: Sequence[BufferType]
    n_copies: int = 1
    where: dict[Tensor, Why] = field(default_factory=dict)
    splits: list[Split] = field(default_factory=list)
    _reads: dict[tuple[int, int], bool] = field(default_factory=dict)

    def can_read(self, b: int, buft: BufferType) -> bool:
        """Whether device `b` uses operands in `buft` without a copy."""
        key = (b, id(buft))
        known = self._reads.get(key)
        if known is None:
            known = self._reads[key] = self.devices[b].supports_buft(buft)
        return known

    def can_run(self, b: int, t: Tensor) -> bool:
        return t.op == "none" or t.op in VIEWS or self.devices[b].supports_op(t)

    def reaches(self, b: int, t: Tensor) -> bool:
        """Whether device `b` reads `t` where it is, or will be by the decisions made so far."""
        root = t.view_src or t
        if root.buffer is not None:
            return self.can_read(b, root.buffer.type)
        at = self.where.get(t) or self.where.get(root)
        return at is not None and self.can_read(b, self.bufts[at.backend])

    def home_of(self, memory: Tensor, t: Tensor) -> int | None:
        """The first device that can run `t` on the buffer of `memory`."""
        buft = memory.buffer.type
        for b in range(len(self.devices)):
            if self.can_read(b, buft) and self.can_run(b, t):
                return b
        return None
