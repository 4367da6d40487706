"""Experts beside a dense feed-forward, each between norms of its own (Gemma 4). The router and the
experts read what attention left, not its norm."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.decoder import Part
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.moe import Moe, experts, moe_tensors, route
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import Builder

MOE = Moe(act="geglu")


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    norms = ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")
    return [
        *ffn_tensors(hp, il, MOE.act, has),
        *moe_tensors(hp, il, MOE.act, has),
        *(spec for name in norms for spec in norm_tensors(hp, name, il)),
        vector(il, "ffn_gate_inp.scale", hp.n_embd),
    ]


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    dense = norm(g, RMS, ffn(g, il, x, MOE.act), "post_ffw_norm_1", "ffn_post_norm_1", il)
    mid = g.mid
    scaled = make("rms_norm", mid, eps=g.hp.norm_rms_eps)
    scaled = make("scale", scaled, scale=g.hp.n_embd**-0.5, bias=0.0)
    ids, w = route(g, il, make("mul", scaled, g.layer(il, "ffn_gate_inp.scale")), MOE)
    h = norm(g, RMS, mid, "pre_ffw_norm_2", "ffn_pre_norm_2", il)
    routed = experts(g, il, h, ids, w, MOE)
    return make("add", dense, norm(g, RMS, routed, "post_ffw_norm_2", "ffn_post_norm_2", il))


BESIDE = Part(_tensors, _build)
