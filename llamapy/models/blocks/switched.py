"""Adapters of low rank (Hu et al. 2021, arXiv 2106.09685) beside matrices, chosen for each token by
the last ones before it that switch one on."""

from __future__ import annotations

import math
from collections.abc import Callable

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks.attn import attend, store
from llamapy.models.blocks.ends import only_outputs
from llamapy.models.builder import Builder

NEARER = 1e-3  # of two slots as near, the higher one


def switched_tensors(hp: HParams, il: int, name: str, n_in: int, n_out: int) -> list[TensorSpec]:
    """Both matrices of all adapters, the first of which stands for none."""
    n, rank = hp.adapters.n + 1, hp.adapters.rank
    pre = f"blk.{il}.{name}.lora_"
    return [
        TensorSpec(f"{pre}a", (n_in, rank, n), il, "layer", op="mul_mat_id"),
        TensorSpec(f"{pre}b", (rank, n_out, n), il, "layer", op="mul_mat_id"),
    ]


def embed(g: Builder) -> Tensor:
    """Embeddings, those of switching tokens replaced. [n_embd, n_tokens]"""
    a = g.hp.adapters
    read = dict(zip(a.activate, a.substitute, strict=True))
    ids = g.add_input(inputs.replaced_ids(g.shape.n_tokens, read))
    x = make("get_rows", g.weight("token_embd.weight"), ids)
    scale = g.hp.embedding_scale
    x = x if scale == 1.0 else make("scale", x, scale=scale, bias=0.0)
    return g.name(x, "inp_embd")


def route(g: Builder, il: int) -> Callable[[int], Tensor]:
    """What gives each of all, or of the wanted tokens its adapter, i32 [1, n]. The cache's layer
    `il` has a head whose K is the gain of a switching token, less it of another, and whose V is the
    token's adapter."""
    a, n = g.hp.adapters, g.shape.n_tokens
    slots = {id: i + 1 for i, id in enumerate(a.activate)}
    size_k, size_v = g.hp.n_embd_head_k, g.hp.n_embd_head_v

    def signal(name: str, size: int, values: dict[int, float], other: float) -> Tensor:
        return g.add_input(inputs.by_token(name, size, n, values, other))

    k = signal("switch_k", size_k, dict.fromkeys(slots, a.gain), -a.gain)
    v = signal("switch_v", size_v, {id: float(i) for id, i in slots.items()}, 0.0)
    store(g, il, k, v)
    scale = g.hp.attention_scale or 1.0 / math.sqrt(size_k)
    q = signal("switch_q", size_k, {}, 1.0 / scale)
    slot = attended(g, il, q)
    line = [float(i) for i in range(a.n + 1)]
    by = reshape(g.add_input(inputs.constants("slots", line)), 1, a.n + 1)
    less = g.add_input(inputs.constants("slots_far", [i * i / 2 - NEARER * i for i in line]))

    def nearest(x: Tensor) -> Tensor:
        """x [1, n]: the largest of i * x - i^2 / 2."""
        score = make("sub", make("mul_mat", by, x), less)
        return make("top_k_ids", score, k=1, n_group=1, n_group_used=1)

    all_ids = nearest(slot)
    wanted: list[Tensor] = []

    def ids(n_rows: int) -> Tensor:
        if n_rows == n:
            return all_ids
        if not wanted:
            wanted.append(nearest(only_outputs(g, slot)[0]))
        return wanted[0]

    return ids


def attended(g: Builder, il: int, q: Tensor) -> Tensor:
    """The first element of what a head sees. [1, n_tokens]"""
    out = attend(g, il, q)
    return make("cpy", view(out, (1, out.ne[1]), (out.nb[1],)), type="f32")
