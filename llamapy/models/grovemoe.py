"""grovemoe: qwen3moe, and after the experts smaller ones, chosen by the same scores, which read
what the former gave, as in the reference, and whose result is added, scaled."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys, count, wrong
from llamapy.loader.hparams import HParams, with_experts
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import HEAD, Attn, Decoder, Moe, Part
from llamapy.models.blocks.moe import expert_tensors, experts, moe_tensors, route
from llamapy.models.builder import Builder

HANDLES = frozenset({"expert_count"})
MOE = Moe(choose_by="sigmoid")


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = with_experts(file, hp)
    per_group = count(file, "grovemoe.experts_per_group", least=1)
    if per_group != 1:
        raise wrong(file, "grovemoe.experts_per_group", "1", per_group)
    n_ff = count(file, "grovemoe.expert_chunk_feed_forward_length", hp.n_embd_head_k, 1)
    scale = file.get_float("grovemoe.expert_group_scale")
    return replace(hp, experts=replace(hp.experts, n_ff_chunk=n_ff, chunk_scale=scale))


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    e = hp.experts
    specs = moe_tensors(hp, il, "swiglu", has)
    for name, n_in, n_out in (
        ("gate", hp.n_embd, e.n_ff_chunk),
        ("up", hp.n_embd, e.n_ff_chunk),
        ("down", e.n_ff_chunk, hp.n_embd),
    ):
        specs += expert_tensors(il, f"ffn_{name}_chexps", n_in, n_out, e.n)
    return specs


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    ids, w = route(g, il, x, MOE)
    out = experts(g, il, x, ids, w, MOE)
    small = experts(g, il, out, ids, w, MOE, "_chexps")
    return make("add", out, make("scale", small, scale=g.hp.experts.chunk_scale, bias=0.0))


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD), ffn=lambda hp, il: Part(_tensors, _build))
