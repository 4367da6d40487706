"""The Python API.

from llamapy import Model

with Model.open("model.gguf") as model:
    for event in model.generate("The capital of France is", n_predict=16):
        ...
    with model.context(n_ctx=512) as ctx:
        logits = ctx.decode(model.tokenizer.encode("Hello"))   # float32 [1, n_vocab]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llamapy.app.generate import Event, Settings, generate
from llamapy.runtime.context import Context
from llamapy.runtime.engine import Engine

__all__ = ["Context", "Model"]


class Model(Engine):
    """An opened GGUF. See `Engine.open` for what opening takes and raises."""

    def generate(self, prompt: str | bytes | Sequence[int], **settings: Any) -> Iterator[Event]:
        """Continue a prompt: events Started, Prefill, Token, Finished. `settings` are the fields of
        app.generate.Settings (n_predict, n_ctx, stop, sampling, ...)."""
        return generate(self, prompt, Settings(**settings))
