"""Hyper-connections: several residual streams in the place of one. A layer's part reads their
mean, each normed and gated by what all of them say, and what it gives is added to each, weighted.
Streams are [n_embd, n_streams, n_tokens]."""

from __future__ import annotations

from functools import partial

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.ends import only_outputs
from llamapy.models.blocks.norm import RMS, norm
from llamapy.models.builder import Builder


def repeated(x: Tensor, n: int) -> Tensor:
    """x [n_embd, n_tokens] n times: [n_embd, n, n_tokens]."""
    return view(x, (x.ne[0], n, x.ne[1]), (0, x.nb[1]))


def stream_norm(g: Builder, x: Tensor, weight: Tensor, name: str, il: int) -> Tensor:
    """Each stream normed, with a weight of its own. weight [n_embd, n_streams], flat or not"""
    return make("mul", norm(g, RMS, x, "", name, il), reshape(weight, *x.ne[:2]))


def read_streams(g: Builder, il: int, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """The mean [n_embd, n_tokens], and the streams, normed [n_embd * n_streams, n_tokens]."""
    find = g.weight if il < 0 else partial(g.layer, il)
    n_embd, n, n_tokens = x.ne[:3]
    normed = stream_norm(g, x, find(f"{name}_norm.weight"), f"{name}_norm", il)
    normed = reshape(normed, n_embd * n, n_tokens)
    low = make("mul_mat", find(f"{name}_down.weight"), normed)
    low = make("silu", make("scale", low, scale=1.0 / n, bias=0.0))
    gate = make("sigmoid", make("mul_mat", find(f"{name}_up.weight"), low))
    total = make("weighted_sum", reshape(make("mul", normed, gate), n_embd, n, n_tokens))
    mean = make("scale", total, scale=1.0 / n, bias=0.0)
    return g.name(mean, f"{name}_mixed", il), normed


def stream_weights(g: Builder, il: int, normed: Tensor, name: str) -> Tensor:
    """How much is added to each stream, [n_streams, n_tokens]; 1 where the matrix gives 0."""
    w = make("mul_mat", g.layer(il, f"{name}_inject.weight"), normed)
    w = make("sigmoid", make("scale", w, scale=1.0 / w.ne[0], bias=0.0))
    return make("scale", w, scale=2.0, bias=0.0)


def add_to_streams(x: Tensor, out: Tensor, w: Tensor) -> Tensor:
    """x plus `out` [n_embd, n_tokens] times w [n_streams, n_tokens]."""
    n = x.ne[1]
    return make("add", x, make("mul", repeated(out, n), reshape(w, 1, n, w.ne[1])))


def output_streams(g: Builder, x: Tensor) -> Tensor:
    n_embd, n = x.ne[:2]
    x = x if x.is_contiguous else make("cpy", x, type="f32")
    (rows,) = only_outputs(g, reshape(x, n_embd * n, x.ne[2]))
    return reshape(rows, n_embd, n, rows.ne[1])


def stream_tensors(hp: HParams, il: int | None, name: str) -> list[TensorSpec]:
    """Of one place where streams are read, and written to unless it is the end of the model."""
    n, n_embd, rank = hp.n_streams, hp.n_embd, hp.stream_rank
    pre, role = (name, "output") if il is None else (f"blk.{il}.{name}", "layer")
    wide = n * n_embd
    norm_spec = TensorSpec(f"{pre}_norm.weight", (n_embd, n), il, role, op="mul", or_ne=(wide,))
    specs = [
        norm_spec,
        TensorSpec(f"{pre}_down.weight", (wide, rank), il, role),
        TensorSpec(f"{pre}_up.weight", (rank, wide), il, role),
    ]
    if il is not None:
        specs.append(TensorSpec(f"{pre}_inject.weight", (wide, n), il, role))
    return specs
