"""Feed-forward of one kind for all tokens."""

from __future__ import annotations

import math

from llamapy.graph.ops import GLU, make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.norm import RMS, norm
from llamapy.models.builder import Builder

GATED = (*GLU, "swiglu_oai", "situ")


def _capped(x: Tensor, cap: float) -> Tensor:
    return make("softcap", x, cap=cap) if cap > 0.0 else x


def situ(g: Builder, gate: Tensor, up: Tensor) -> Tensor:
    """cap(gate, beta) * sigmoid(gate) * cap(up, linear beta), cap(x, b) = b * tanh(x / b)."""
    beta, linear_beta = g.hp.situ
    h = make("mul", _capped(gate, beta), make("sigmoid", gate))
    return make("mul", h, _capped(up, linear_beta))


def glu(g: Builder, act: str, *xs: Tensor, limit: float = 0.0) -> Tensor:
    """`act` of gate and up, of both in one, or of up alone. A `limit` above 0 bounds up on both
    sides and silu(gate) from above."""
    if act == "situ":
        return situ(g, *xs)
    if act == "swiglu_oai":
        return make(act, *xs, alpha=1.702, limit=7.0)
    if limit and act == "swiglu" and len(xs) == 2:
        gate = make("clamp", make("silu", xs[0]), min=-math.inf, max=limit)
        return make("mul", gate, make("clamp", xs[1], min=-limit, max=limit))
    return make(act, *xs)


def ffn(g: Builder, il: int, x: Tensor, act: str, suffix: str = "", limit: float = 0.0) -> Tensor:
    """down(act(gate(x)) * up(x)) where `act` is a gated op (swiglu, geglu, ...), else
    down(act(up(x))). Without a matrix of its own the gate is the first half of up's rows.
    `suffix` tells the shared experts' matrices apart; `limit`: see `glu`."""
    up = linear(g, il, f"ffn_up{suffix}", x)
    if g.maybe_layer(il, f"ffn_gate{suffix}.weight") is None:
        h = glu(g, act, up)
    else:
        gate = linear(g, il, f"ffn_gate{suffix}", x)
        g.expand(gate, up)
        h = glu(g, act, gate, up, limit=limit)
    scales = g.maybe_layer(il, "ffn.act.scales")
    if scales is not None:
        h = make("div", h, scales)
    if g.maybe_layer(il, "ffn_sub_norm.weight") is not None:
        h = norm(g, RMS, h, "ffn_sub_norm", "ffn_sub_norm", il)
    return linear(g, il, f"ffn_down{suffix}", g.name(h, f"ffn_act{suffix}", il))


def sparse_ffn(g: Builder, il: int, x: Tensor, act: str, cut: float) -> Tensor:
    """The same of gates less their row's mean and `cut` standard deviations, where that is above
    0."""
    up, gate = linear(g, il, "ffn_up", x), linear(g, il, "ffn_gate", x)
    g.expand(gate, up)
    n = gate.ne[0]
    off = make("sub", gate, make("scale", make("sum_rows", gate), scale=1.0 / n, bias=0.0))
    total = make("sum_rows", make("sqr", off))
    deviation = make("sqrt", make("scale", total, scale=1.0 / (n - 1), bias=0.0))
    over = make("sub", off, make("scale", deviation, scale=cut, bias=0.0))
    return linear(g, il, "ffn_down", make(act, make("relu", over), up))


def ffn_tensors(
    hp: HParams, il: int, act: str, has: Has, n_ff: int = 0, suffix: str = ""
) -> list[TensorSpec]:
    n_embd, n_ff = hp.n_embd, n_ff or hp.n_ff[il]
    fused = act in GATED and not has(f"blk.{il}.ffn_gate{suffix}.weight")
    gate = linear_tensors(il, f"ffn_gate{suffix}", n_embd, n_ff) if act in GATED else []
    specs = [
        *([] if fused else gate),
        *linear_tensors(il, f"ffn_up{suffix}", n_embd, 2 * n_ff if fused else n_ff),
        *linear_tensors(il, f"ffn_down{suffix}", n_ff, n_embd),
    ]
    if not suffix:
        specs.append(vector(il, "ffn.act.scales", n_ff, required=False, op="div"))
    return specs
