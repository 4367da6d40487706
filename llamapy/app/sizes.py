"""The sizes, types and threads of a context, as every job that opens one takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSettings:
    """Sizes in tokens. `n_ctx` None: what the job needs, 0: what the model was trained for. The
    number of threads None: what the processor allows."""

    n_ctx: int | None = None
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int | None = None
    n_threads_batch: int | None = None
    type_k: str = "f16"
    type_v: str = "f16"

    def of_context(self, **sizes: Any) -> dict[str, Any]:
        """What `Model.context` takes, with the job's own `sizes`: n_ctx among them."""
        return {
            "n_batch": self.n_batch,
            "n_ubatch": self.n_ubatch,
            "type_k": self.type_k,
            "type_v": self.type_v,
            "n_threads": self.n_threads,
            "n_threads_batch": self.n_threads_batch,
            **sizes,
        }
