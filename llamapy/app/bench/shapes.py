"""Shapes of real models, by name; what `--synthetic` fills with random weights."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from llamapy.app.bench.mix import kind_named
from llamapy.base.errors import UsageError, near_match


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes in elements. `tied`: the embedding is the output matrix as well. `rope_factors`: the
    file has a tensor of frequency factors."""

    arch: str = "llama"
    n_layer: int
    n_embd: int
    n_ff: int
    n_head: int
    n_head_kv: int
    n_embd_head: int
    n_vocab: int
    n_ctx_train: int = 131072
    n_swa: int = 0
    freq_base: float = 500000.0
    eps: float = 1e-5
    tied: bool = False
    rope_factors: bool = False


SHAPES = {
    # The one that figures are compared on: small vocabulary, output matrix of its own.
    "llama-1b": Shape(
        n_layer=16, n_embd=2048, n_ff=8192, n_head=32, n_head_kv=8, n_embd_head=64, n_vocab=32000
    ),
    "llama-3.2-1b": Shape(
        n_layer=16, n_embd=2048, n_ff=8192, n_head=32, n_head_kv=8, n_embd_head=64,
        n_vocab=128256, tied=True, rope_factors=True,
    ),
    "llama-3.2-3b": Shape(
        n_layer=28, n_embd=3072, n_ff=8192, n_head=24, n_head_kv=8, n_embd_head=128,
        n_vocab=128256, tied=True, rope_factors=True,
    ),
    "llama-8b": Shape(
        n_layer=32, n_embd=4096, n_ff=14336, n_head=32, n_head_kv=8, n_embd_head=128,
        n_vocab=128256, rope_factors=True,
    ),
    "smollm2-135m": Shape(
        n_layer=30, n_embd=576, n_ff=1536, n_head=9, n_head_kv=3, n_embd_head=64, n_vocab=49152,
        n_ctx_train=8192, freq_base=100000.0, tied=True,
    ),
    "gemma-3-270m": Shape(
        arch="gemma3", n_layer=18, n_embd=640, n_ff=2048, n_head=4, n_head_kv=1, n_embd_head=256,
        n_vocab=262144, n_ctx_train=32768, n_swa=512, freq_base=1e6, eps=1e-6, tied=True,
    ),
}  # fmt: skip
_SPEC = re.compile(r"(?P<shape>[^/:]+)(?:/(?P<layers>\d+))?:(?P<kind>[^/:]+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Spec:
    """What to make: SHAPE[/LAYERS]:TYPE, read."""

    name: str
    shape: Shape
    kind: str


def parse_spec(text: str) -> Spec:
    """ "llama-1b:Q4_K_M", or "llama-1b/8:Q8_0" for 8 layers of it. UsageError for anything else."""
    found = _SPEC.fullmatch(text)
    if found is None:
        raise UsageError(f"--synthetic '{text}': expected SHAPE[/LAYERS]:TYPE, as llama-1b/8:Q4_0")
    name = found["shape"].lower()
    if name not in SHAPES:
        near = near_match(name, SHAPES)
        raise UsageError(f"--synthetic: no shape '{name}'{near} (known: {', '.join(SHAPES)})")
    shape, layers = SHAPES[name], found["layers"]
    if layers is not None:
        if not 1 <= int(layers) <= 512:
            raise UsageError(f"--synthetic '{text}': layers must be from 1 to 512")
        shape, name = replace(shape, n_layer=int(layers)), f"{name}/{int(layers)}"
    kind = kind_named(found["kind"])
    return Spec(f"{name}:{kind}", shape, kind)
