"""What every pass needs and no paper explains: tensors of a GGUF in float64, and four functions.

A tensor that GGUF describes as ne = [in, out] is a numpy array [out, in]: `linear` is x @ W.T + b.
All references here are float32 files; a quantised one would have to be dequantised first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFReader

Array = np.ndarray[Any, np.dtype[np.float64]]
Forward = Callable[["Weights", list[int]], Array]


class Weights:
    """`w["blk.0.attn_norm.weight"]` is a float64 array; `w.key("rope.freq_base", 1e4)` is the key
    `ARCH.rope.freq_base`, or the default where the file is silent."""

    def __init__(self, path: Path) -> None:
        reader = GGUFReader(path)
        self.keys = {k: f.contents() for k, f in reader.fields.items()}
        self.arch: str = self.keys["general.architecture"]
        self.tensors = {t.name: np.asarray(t.data, np.float64) for t in reader.tensors}

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def __getitem__(self, name: str) -> Array:
        return self.tensors[name]

    def key(self, name: str, default: Any = None) -> Any:
        value = self.keys.get(f"{self.arch}.{name}", default)
        assert value is not None, f"{self.arch}.{name} is missing"
        return value

    def linear(self, x: Array, name: str) -> Array:
        """x W^T, plus the bias where there is one."""
        y: Array = x @ self[f"{name}.weight"].T
        return y + self[f"{name}.bias"] if f"{name}.bias" in self else y

    def unembed(self, x: Array) -> Array:
        """Logits: the output matrix, or the embedding's where both are one."""
        return self.linear(x, "output" if "output.weight" in self else "token_embd")


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    y: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight
    return y
