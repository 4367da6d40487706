"""What a context is made from: what is fixed for its life, and what the model brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.base.threads import default_threads
from llamapy.base.types import CACHE_TYPES
from llamapy.devices.cpu import CpuDevice
from llamapy.graph.device import Device
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.models.registry import Architecture

DEFAULT_CTX = 4096  # at most this when nobody asks for a size, and never more than the model's
MAX_CTX = 1 << 26  # the books of a cell take bytes, too, and no model comes near


@dataclass(frozen=True, slots=True)
class ContextParams:
    """What is fixed for the life of a context. Sizes in tokens; types by name."""

    n_ctx: int
    n_batch: int = 2048
    n_ubatch: int = 512
    n_seq_max: int = 1
    n_ctx_seq: int = 0  # the context of one sequence, for models that rotate by it; 0: n_ctx
    type_k: str = "f16"
    type_v: str = "f16"
    n_threads: int = 1
    n_threads_batch: int = 1
    fusion: bool = True  # the same bits either way
    never: tuple[int, ...] | None = None  # see Engine.context
    n_longest: int = 0  # tokens of the longest sequence, where that is known; 0: n_ctx
    rounded: bool = False  # sizes of ubatches, too: see GraphKey.rounded

    @classmethod
    def of(
        cls,
        n_ctx_train: int,
        *,
        n_ctx: int | None,
        n_threads: int | None,
        n_threads_batch: int | None,
        **more: Any,
    ) -> Self:
        """With what is not given chosen: see Engine.context."""
        if n_ctx is None:
            n_ctx = min(n_ctx_train, DEFAULT_CTX)
        if n_threads is None:
            n_threads = default_threads().n
        if n_threads_batch is None:
            n_threads_batch = n_threads
        return cls(
            n_ctx or n_ctx_train, n_threads=n_threads, n_threads_batch=n_threads_batch, **more
        )

    def __post_init__(self) -> None:
        for name in ("n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_threads", "n_threads_batch"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.n_ctx > MAX_CTX:
            raise MemoryBudgetError(f"n_ctx must be at most {MAX_CTX}, got {self.n_ctx}")
        for name in ("type_k", "type_v"):
            if getattr(self, name) not in CACHE_TYPES:
                raise UsageError(
                    f"{name} must be one of {', '.join(CACHE_TYPES)}, not '{getattr(self, name)}'"
                )


@dataclass(frozen=True, slots=True)
class Parts:
    """What a model brings to its contexts. `devices` are those besides the CPU, by priority;
    `layer_device[il]` names where layer il, and so its cache, lives. `cpu` makes the CPU for a
    number of threads; `room` looks whether there is memory for what a context has opened for
    graphs with so many rows of results, before any of it is touched."""

    arch: Architecture
    hp: HParams
    weights: Mapping[str, Tensor]
    devices: Sequence[Device]
    layer_device: Sequence[str]
    cpu: Callable[[int], CpuDevice] = CpuDevice
    room: Callable[[Any, int], None] = lambda context, n_outputs: None
