"""Small models of random weights, of architectures for which there is no reference file: keys by
hand, tensors as the architecture itself asks for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gguf_writer import Writer

from llamapy.loader.gguf import GGUF
from llamapy.models import registry

N_VOCAB = 128


def _writer(arch: str, keys: dict[str, Any]) -> Writer:
    """Names of keys are without the architecture's, or begin with a stroke."""
    w = Writer().text("general.architecture", arch)
    for name, value in {"vocab_size": N_VOCAB, "context_length": 256, **keys}.items():
        key = name[1:] if name.startswith("/") else f"{arch}.{name}"
        if isinstance(value, tuple):
            w.array(key, *value)
        elif isinstance(value, list):
            kind = "bool" if isinstance(value[0], bool) else "i32"
            w.array(key, kind, value)
        elif isinstance(value, bool):
            w.key(key, "bool", value)
        else:
            (w.u32 if isinstance(value, int) else w.f32)(key, value)
    w.text("tokenizer.ggml.model", "test")
    n = keys.get("vocab_size", N_VOCAB)
    w.strings("tokenizer.ggml.tokens", [f"tok_{i}" for i in range(n)])
    return w.array("tokenizer.ggml.token_type", "i32", [1] * n)


def write(
    path: Path,
    arch: str,
    keys: dict[str, Any],
    *,
    has: Callable[[str], bool],
    optional: Collection[str] = (),
    seed: int = 1,
    scaled: Mapping[str, float] | None = None,
    unread: Mapping[str, tuple[int, ...]] | None = None,
    given: Mapping[str, Sequence[float]] | None = None,
    other: Collection[str] = (),
) -> Path:
    """The same bytes for the same arguments. `has` as the architecture's `tensors` takes it;
    `optional`: ends of names of tensors that it could do without and gets; `scaled`: factors of
    some, by ends of names, of which a negative one leaves no positive number; `unread`: tensors
    that only the reference asks for; `given`: vectors with these numbers; `other`: ends of names of
    tensors in their second shape."""
    _writer(arch, keys).tensor("none", (1,), "f32", bytes(4)).save(path)
    found = registry.find(arch, path)
    with GGUF.open(path) as file:
        specs = found.tensors(registry.shape_of(found, file), has)
    scaled = scaled or {}
    w, random = _writer(arch, keys), np.random.default_rng(seed)
    for s in specs:
        if not s.required and not s.name.endswith(tuple(optional)):
            continue
        ne = s.or_ne if s.name.endswith(tuple(other)) else s.ne
        values = random.normal(0.0, 1.0, int(np.prod(ne)))
        values = values * ne[0] ** -0.5 if len(ne) > 1 else 1.0 + 0.2 * values
        for end, factor in scaled.items():
            if s.name.endswith(end):
                values = factor * (np.abs(values) if factor < 0 else values)
        w.tensor(s.name, ne, "f32", values.astype("<f4").tobytes())
    for name, ne in (unread or {}).items():
        w.tensor(name, ne)
    for name, numbers in (given or {}).items():
        w.tensor(name, (len(numbers),), "f32", np.array(numbers, "<f4").tobytes())
    return w.save(path)
