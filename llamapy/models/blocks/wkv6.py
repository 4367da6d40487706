"""The time mix of RWKV-6: five inputs are mixed by what the token says, states forget channel by
channel, the present token has a bonus."""

from __future__ import annotations

from llamapy.graph.ops import make, permute, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.rwkv import (
    Mixed,
    by_head,
    head_norm,
    lerp,
    low_rank,
    low_rank_tensors,
)
from llamapy.models.builder import Builder

INPUTS = "wkvrg"


def wkv6_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    r, n = hp.rwkv, hp.n_embd
    if has(f"blk.{il}.time_mix_lerp_fused.weight"):
        lerps = [vector(il, "time_mix_lerp_fused.weight", n, 1, 1, 5)]
    else:
        lerps = [vector(il, f"time_mix_lerp_{c}.weight", n) for c in INPUTS]
    w2 = f"blk.{il}.time_mix_w2.weight"
    return [
        *lerps,
        vector(il, "time_mix_lerp_x.weight", n),
        *linear_tensors(il, "time_mix_w1", n, 5 * r.n_mix),
        TensorSpec(w2, (r.n_mix, n, 5), il, "layer"),
        *low_rank_tensors(il, "time_mix_decay_w", n, r.n_decay, start=False),
        vector(il, "time_mix_decay.weight", n, op="add"),
        *linear_tensors(il, "time_mix_gate", n, n),
    ]


def mixed_inputs(g: Builder, il: int, m: Mixed) -> list[Tensor]:
    """What decay, key, value, receptance and gate are made from, each [n_embd, n_tokens]."""
    n, n_tokens = m.x.ne[:2]
    w1 = g.layer(il, "time_mix_w1.weight")
    h = make("tanh", make("mul_mat", w1, lerp(g, il, "time_mix_lerp_x", m)))
    h = permute(reshape(h, g.hp.rwkv.n_mix, 5, n_tokens), 0, 2, 1)
    shares = make("mul_mat", g.layer(il, "time_mix_w2.weight"), h)  # [n, n_tokens, 5]
    fused = g.maybe_layer(il, "time_mix_lerp_fused.weight")
    out = []
    for i, c in enumerate(INPUTS):
        if fused is None:
            weight = reshape(g.layer(il, f"time_mix_lerp_{c}.weight"), n)
        else:
            weight = view(fused, (n,), (), i * fused.nb[3])
        share = view(shares, (n, n_tokens), (shares.nb[1],), i * shares.nb[2])
        out.append(m.by(make("add", share, weight)))
    return out


def wkv6(g: Builder, il: int, m: Mixed, first: Tensor | None) -> tuple[Tensor, None]:
    """y [n_embd, n_tokens]"""
    x_w, x_k, x_v, x_r, x_g = mixed_inputs(g, il, m)
    r, k, v = (
        by_head(g, linear(g, il, f"time_mix_{name}", x))
        for name, x in (("receptance", x_r), ("key", x_k), ("value", x_v))
    )
    gate = linear(g, il, "time_mix_gate", x_g)
    w = make(
        "add",
        low_rank(g, il, "time_mix_decay_w", x_w, "tanh"),
        g.layer(il, "time_mix_decay.weight"),
    )
    w = by_head(g, make("exp", make("neg", make("exp", w))))
    state, bonus = g.state(il, "wkv"), g.maybe_layer(il, "time_mix_first.weight")
    if bonus is None:  # linear attention: what is kept of a state is not taken from the key
        k = make("sub", k, make("mul", k, w))
        scale = g.hp.rwkv.n_embd_head**-0.5
        y = make("gated_linear_attn", state, r, k, v, w, g.runs, scale=scale)
    else:
        y = make("rwkv_wkv6", state, r, k, v, w, bonus, g.runs)
    y = head_norm(g, il, g.name(y, "wkv_out", il))
    y = make("mul", y, make("sigmoid" if bonus is None else "silu", gate))
    return linear(g, il, "time_mix_output", y), None
