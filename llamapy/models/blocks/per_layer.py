"""Embeddings that each layer gets of its own (Gemma 3n): a part of each token's row of one large
table, added to a projection of the token's embedding, goes through a gate into that layer."""

from __future__ import annotations

import math

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.ends import only_outputs
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.norm import RMS, norm
from llamapy.models.builder import Builder


def tensors(hp: HParams) -> list[TensorSpec]:
    n, small = hp.n_embd, hp.n_embd_per_layer
    wide = small * hp.n_layer
    specs = [
        TensorSpec("per_layer_token_embd.weight", (wide, hp.n_vocab), None, "input", op="get_rows"),
        TensorSpec("per_layer_model_proj.weight", (n, wide), None, "input"),
        TensorSpec("per_layer_proj_norm.weight", (small,), None, "input", op="mul"),
    ]
    for il in range(hp.n_layer):
        specs.append(TensorSpec(f"blk.{il}.inp_gate.weight", (n, small), il, "layer"))
        specs.append(TensorSpec(f"blk.{il}.proj.weight", (small, n), il, "layer"))
        specs.append(vector(il, "post_norm.weight", n))
    return specs


def inputs(g: Builder, x: Tensor) -> Tensor:
    """What all layers get. x [n_embd, n_tokens], embeddings -> [n_embd_per_layer, n_layer,
    n_tokens]"""
    hp, n = g.hp, x.ne[1]
    shape = (hp.n_embd_per_layer, hp.n_layer, n)
    rows = make("get_rows", g.weight("per_layer_token_embd.weight"), g.token_ids)
    rows = make("scale", rows, scale=math.sqrt(hp.n_embd_per_layer), bias=0.0)
    made = make("mul_mat", g.weight("per_layer_model_proj.weight"), x)
    made = make("scale", made, scale=1.0 / math.sqrt(hp.n_embd), bias=0.0)
    made = norm(g, RMS, reshape(made, *shape), "per_layer_proj_norm", "per_layer_proj_norm")
    both = make("add", made, reshape(rows, *shape))
    return g.name(make("scale", both, scale=math.sqrt(0.5), bias=0.0), "inp_per_layer")


def of_layer(x: Tensor, il: int) -> Tensor:
    """Layer il's part of `inputs`, [n_embd_per_layer, n_tokens]."""
    return view(x, (x.ne[0], x.ne[2]), (x.nb[2],), il * x.nb[1])


def branch(g: Builder, il: int, x: Tensor, own: Tensor) -> Tensor:
    """What the layer's own embedding `own` makes of x [n_embd, n]: to be added."""
    h = make("gelu", make("mul_mat", g.layer(il, "inp_gate.weight"), x))
    h = make("mul_mat", g.layer(il, "proj.weight"), make("mul", h, own))
    return norm(g, RMS, h, "post_norm", "per_layer_post_norm", il)


def added(g: Builder, il: int, x: Tensor, own: Tensor, *, last: bool) -> Tensor:
    """x [n_embd, n] plus that, given `inputs`; of the last layer only the wanted rows are left."""
    part = of_layer(own, il)
    part = only_outputs(g, part)[0] if last else part
    return make("add", x, branch(g, il, x, part))
