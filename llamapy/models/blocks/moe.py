"""Feed-forward by experts: a router gives each token a few of many, their results are weighted and
added; shared experts see every token."""

from __future__ import annotations

import math
from dataclasses import dataclass

from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.ffn import GATED, ffn, ffn_tensors, glu
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import Builder

LEAST_SUM = 6.103515625e-5  # weights are normalised by no less: f16's smallest normal number


@dataclass(frozen=True, slots=True)
class Moe:
    """`act` of the experts; what experts are chosen by: their `gating` from the file or `choose_by`
    ('logits', 'sigmoid'); `weight_first`: the weight goes onto what an expert reads, not onto what
    it gives; `raw_router`: the router reads the layer's input; `clamp_first`: what bounds swiglu
    bounds the gate before its silu, not after; `sum_scale`: of routed plus shared experts."""

    act: str = "swiglu"
    choose_by: str = ""
    weight_first: bool = False
    raw_router: bool = False
    clamp_first: bool = False
    sum_scale: float = 1.0


def route(g: Builder, il: int, x: Tensor, moe: Moe) -> tuple[Tensor, Tensor]:
    """Ids i32 [n_used, n_tokens] and weights f32 [n_used, n_tokens] of each token's experts."""
    e, n = g.hp.experts, x.ne[1]
    logits = g.name(make("mul_mat", g.layer(il, "ffn_gate_inp.weight"), x), "ffn_moe_logits", il)
    bias = g.maybe_layer(il, "ffn_gate_inp.bias")
    logits = logits if bias is None else make("add", logits, bias)
    probs = _gate(logits, e.gating)
    chosen_by = _gate(logits, moe.choose_by) if moe.choose_by else probs
    for name in ("exp_probs_b.bias", "exp_probs_b"):
        if (b := g.maybe_layer(il, name)) is not None:
            chosen_by = make("add", chosen_by, b)
    ids = make("top_k_ids", chosen_by, k=e.used(il), n_group=e.n_group, n_group_used=e.n_group_used)
    w = make("take_ids", probs, g.name(ids, "ffn_moe_topk", il))
    if e.gating == "softmax_selected":
        w = make("soft_max", w)
    if e.normalise:
        total = make("clamp", make("sum_rows", w), min=LEAST_SUM, max=math.inf)
        w = make("div", w, total)
    if e.scale != 1.0:
        w = make("scale", w, scale=e.scale, bias=0.0)
    return ids, g.name(reshape(w, e.used(il), n), "ffn_moe_weights", il)


def _gate(logits: Tensor, gating: str) -> Tensor:
    if gating in ("softmax", "sigmoid"):
        return make("soft_max" if gating == "softmax" else "sigmoid", logits)
    return make("sqrt", make("softplus", logits)) if gating == "sqrt_softplus" else logits


def experts(
    g: Builder, il: int, x: Tensor, ids: Tensor, w: Tensor, moe: Moe, suffix: str = "_exps"
) -> Tensor:
    """The weighted sum of the chosen experts. x [n_embd, n_tokens] -> the same"""
    n_used, n = ids.ne[0], x.ne[1]
    first = reshape(w, 1, n_used, n) if moe.weight_first else None
    h = _experts_up(g, il, reshape(x, x.ne[0], 1, n), ids, moe, suffix, first)
    down = _by_id(g, il, f"ffn_down{suffix}", g.name(h, f"ffn_moe_act{suffix}", il), ids)
    out = make("weighted_sum", down) if moe.weight_first else make("weighted_sum", down, w)
    return g.name(out, f"ffn_moe_out{suffix}", il)


def _by_id(g: Builder, il: int, name: str, x: Tensor, ids: Tensor) -> Tensor:
    """x [k, n_used or 1, n_tokens] by each one's expert, times its scale, plus its bias."""
    out = make("mul_mat_id", g.layer(il, f"{name}.weight"), x, ids)
    scale = g.maybe_layer(il, f"{name}.scale")
    if scale is not None:
        each = make("get_rows", reshape(scale, 1, scale.ne[0]), ids)
        out = make("mul", out, reshape(each, 1, *ids.ne[:2]))
    bias = g.maybe_layer(il, f"{name}.bias")
    out = out if bias is None else make("add_id", out, bias, ids)
    return g.name(out, name, il)


def _experts_up(
    g: Builder, il: int, x: Tensor, ids: Tensor, moe: Moe, suffix: str, first: Tensor | None
) -> Tensor:
    """What goes into `down`. A weight that x is to have been multiplied by, `first` [1, n_used,
    n_tokens], is put on the products instead, which are linear in x."""

    def product(name: str) -> Tensor:
        out = _by_id(g, il, f"{name}{suffix}", x, ids)
        return out if first is None else make("mul", out, first)

    if g.maybe_layer(il, f"ffn_gate_up{suffix}.weight") is not None:
        return glu(g, moe.act, product("ffn_gate_up"))
    if moe.act not in GATED:
        return make(moe.act, product("ffn_up"))
    gate, up = product("ffn_gate"), product("ffn_up")
    g.expand(gate, up)
    limit = g.hp.experts.clamp[il] if g.hp.experts.clamp else 0.0
    if limit and moe.clamp_first:
        gate = make("clamp", gate, min=-math.inf, max=limit)
    return glu(g, moe.act, gate, up, limit=limit)


def shared_expert(g: Builder, il: int, x: Tensor, act: str) -> Tensor | None:
    """What all tokens go through, times a gate of its own where the file has one."""
    if g.maybe_layer(il, "ffn_up_shexp.weight") is None:
        return None
    clamp = g.hp.experts.clamp_shared
    out = ffn(g, il, x, act, "_shexp", limit=clamp[il] if clamp else 0.0)
    gate = g.maybe_layer(il, "ffn_gate_inp_shexp.weight")
    if gate is not None:
        w = make("sigmoid", make("mul_mat", reshape(gate, gate.ne[0], 1), x))  # [1, n_tokens]
        out = make("mul", out, w)
    return g.name(out, "ffn_shexp", il)


def moe_ffn(g: Builder, il: int, x: Tensor, moe: Moe, router_input: Tensor | None = None) -> Tensor:
    """Routed plus shared experts. x [n_embd, n_tokens] -> the same"""
    ids, w = route(g, il, x if router_input is None else router_input, moe)
    out = (
        _in_small(g, il, x, ids, w, moe) if g.hp.experts.n_embd else experts(g, il, x, ids, w, moe)
    )
    shared = shared_expert(g, il, x, moe.act)
    if shared is None:
        return out
    out = make("add", out, shared)
    if moe.sum_scale != 1.0:
        out = make("scale", out, scale=moe.sum_scale, bias=0.0)
    return g.name(out, "ffn_out", il)


def _in_small(g: Builder, il: int, x: Tensor, ids: Tensor, w: Tensor, moe: Moe) -> Tensor:
    """Experts that work in a space of their own, what they give normed if there is a norm."""
    space = "ffn_routed" if g.maybe_layer(il, "ffn_routed_down.weight") else "ffn_latent"
    small = make("mul_mat", g.layer(il, f"{space}_down.weight"), x)
    out = experts(g, il, small, ids, w, moe)
    if g.maybe_layer(il, f"{space}_norm.weight") is not None:
        out = norm(g, RMS, out, f"{space}_norm", f"{space}_norm", il)
    return make("mul_mat", g.layer(il, f"{space}_up.weight"), out)


def _small_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    n, small = hp.n_embd, hp.experts.n_embd
    normed = has(f"blk.{il}.ffn_routed_down.weight")  # Kimi's experts; Nemotron's have no norm
    space = "ffn_routed" if normed else "ffn_latent"
    return [
        TensorSpec(f"blk.{il}.{space}_down.weight", (n, small), il, "layer"),
        TensorSpec(f"blk.{il}.{space}_up.weight", (small, n), il, "layer"),
        *(norm_tensors(hp, f"{space}_norm", il, (small,)) if normed else []),
    ]


def moe_tensors(hp: HParams, il: int, act: str, has: Has) -> list[TensorSpec]:
    e, pre = hp.experts, f"blk.{il}."
    n_embd = e.n_embd or hp.n_embd
    specs = [
        TensorSpec(f"{pre}ffn_gate_inp.weight", (hp.n_embd, e.n), il, "layer"),
        vector(il, "ffn_gate_inp.bias", e.n, required=False, op="add"),
        vector(il, "exp_probs_b.bias", e.n, required=False, op="add"),
        vector(il, "exp_probs_b", e.n, required=False, op="add"),
        *expert_tensors(il, "ffn_down_exps", e.ff(il), n_embd, e.n),
    ]
    if (
        act in GATED
        and has(f"{pre}ffn_gate_up_exps.weight")
        and not has(f"{pre}ffn_up_exps.weight")
    ):
        specs += expert_tensors(il, "ffn_gate_up_exps", n_embd, 2 * e.ff(il), e.n)
    else:
        specs += expert_tensors(il, "ffn_up_exps", n_embd, e.ff(il), e.n)
        if act in GATED:
            specs += expert_tensors(il, "ffn_gate_exps", n_embd, e.ff(il), e.n)
    if e.n_embd:
        specs += _small_tensors(hp, il, has)
    if e.n_ff_shared:
        specs += ffn_tensors(hp, il, act, has, e.n_ff_shared, "_shexp")
        specs.append(
            vector(il, "ffn_gate_inp_shexp.weight", hp.n_embd, required=False, op="mul_mat")
        )
    return specs


def expert_tensors(il: int, name: str, n_in: int, n_out: int, n: int) -> list[TensorSpec]:
    """A matrix [n_in, n_out], an optional scale and an optional bias for each of n experts."""
    return [
        TensorSpec(f"blk.{il}.{name}.weight", (n_in, n_out, n), il, "layer", op="mul_mat_id"),
        TensorSpec(f"blk.{il}.{name}.scale", (n,), il, "layer", required=False, op="get_rows"),
        TensorSpec(f"blk.{il}.{name}.bias", (n_out, n), il, "layer", required=False, op="add_id"),
    ]
