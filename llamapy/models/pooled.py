"""What follows pooling: a graph of its own, of one row per text, the same for all architectures.

Its matrices are in the file or are not. `rank`: a matrix with tanh (`cls`; GELU in modern-bert,
then a norm) and one that gives the scores (`cls.output`). Otherwise: the dense layers that some
models of sentences have behind their pooling (`dense_2`, `dense_3`).
"""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks.norm import LAYER, norm
from llamapy.models.builder import Builder

SOFT_MAX = ("qwen3", "qwen3vl")  # whose scores are probabilities


def pooled_tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    """Those of them that the file has."""
    n, scores = hp.n_embd, hp.pooled.n_scores
    specs = [
        TensorSpec("cls.weight", (n, n), None, "output", or_ne=(n, 1)),
        TensorSpec("cls.bias", (n,), None, "output", op="add", or_ne=(1,)),
        TensorSpec("cls.norm.weight", (n,), None, "output", op="mul"),
        TensorSpec("cls.output.weight", (n, scores), None, "output"),
        TensorSpec("cls.output.bias", (scores,), None, "output", op="add"),
    ]
    for i, (n_in, n_out) in hp.pooled.dense.items():
        specs += [
            TensorSpec(f"dense_{i}.weight", (n_in, n_out), None, "output"),
            TensorSpec(f"dense_{i}.bias", (n_out,), None, "output", op="add"),
        ]
    return [s for s in specs if has(s.name)]


def follows(g: Builder, pooling: str) -> bool:
    """Whether anything does."""
    names = ("cls", "cls.output") if pooling == "rank" else ("dense_2", "dense_3")
    return any(g.maybe(f"{name}.weight") is not None for name in names)


def build_pooled(g: Builder, n_rows: int, pooling: str) -> Tensor:
    """The graph. Returns its input, f32 [n_embd, n_rows]."""
    rows = inputs.pooled_rows(g.hp.n_embd, n_rows).tensor
    if pooling == "rank":
        x = _scores(g, rows)
    else:
        x = _linear(g, "dense_3", _linear(g, "dense_2", rows))
    g.finish(g.name(x, "result_pooled"))
    return rows


def _linear(g: Builder, name: str, x: Tensor) -> Tensor:
    w, bias = g.maybe(f"{name}.weight"), g.maybe(f"{name}.bias")
    x = x if w is None else make("mul_mat", w, x, precise=True)
    return x if bias is None else make("add", x, bias)


def _scores(g: Builder, x: Tensor) -> Tensor:
    if g.maybe("cls.weight") is not None:
        modern = g.hp.arch == "modern-bert"
        x = make("gelu" if modern else "tanh", _linear(g, "cls", x))
        if g.maybe("cls.norm.weight") is not None:
            x = norm(g, LAYER, x, "cls.norm", "cls_norm")
    x = _linear(g, "cls.output", x)
    return make("soft_max", x) if g.hp.arch in SOFT_MAX else x
