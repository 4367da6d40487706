"""The time mix of RWKV-7: states are corrected where they hold what a key says (the delta rule, at
a rate of each channel's own), values take a share of the first layer's."""

from __future__ import annotations

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.linear import linear, vector
from llamapy.models.blocks.rwkv import (
    Mixed,
    by_head,
    head_norm,
    low_rank,
    low_rank_tensors,
)
from llamapy.models.builder import Builder


def wkv7_tensors(hp: HParams, il: int, *, gated: bool = True) -> list[TensorSpec]:
    r, n = hp.rwkv, hp.n_embd
    gate = low_rank_tensors(il, "time_mix_g", n, r.n_gate, start=False) if gated else []
    ranks = {"w": r.n_decay, "a": r.n_rate, "v": r.n_value if il else r.n_rate}
    return [
        *(t for c, k in ranks.items() for t in low_rank_tensors(il, f"time_mix_{c}", n, k)),
        *gate,
        vector(il, "time_mix_lerp_fused.weight", n, 1, 1, 5 + gated),
        *(vector(il, f"time_mix_{c}.weight", n) for c in ("k_k", "k_a", "r_k")),
    ]


def wkv7(g: Builder, il: int, m: Mixed, first: Tensor | None) -> tuple[Tensor, Tensor]:
    """y [n_embd, n_tokens], and the first layer's values."""
    weights = g.layer(il, "time_mix_lerp_fused.weight")
    rows = [m.by(view(weights, m.x.ne[:1], (), i * weights.nb[3])) for i in range(weights.ne[3])]
    x_r, x_w, x_k, x_v, x_a = rows[:5]
    r = linear(g, il, "time_mix_receptance", x_r)
    k, v = linear(g, il, "time_mix_key", x_k), linear(g, il, "time_mix_value", x_v)
    # e^(-0.5) bounds the decay; six digits of it are what models are trained with
    w = make("sigmoid", low_rank(g, il, "time_mix_w", x_w, "tanh"))
    w = make("exp", make("scale", w, scale=-0.606531, bias=0.0))
    if first is None:
        first = v
    else:
        share = make("sigmoid", low_rank(g, il, "time_mix_v", x_v))
        v = make("add", v, make("mul", make("sub", first, v), share))
    a = make("sigmoid", low_rank(g, il, "time_mix_a", x_a))
    kk = by_head(g, make("mul", k, g.layer(il, "time_mix_k_k.weight")))
    kk = make("l2_norm", kk, eps=1e-12)
    # k (1 + (a - 1) k_a)
    share = make("mul", make("scale", a, scale=1.0, bias=-1.0), g.layer(il, "time_mix_k_a.weight"))
    k = make("add", k, make("mul", k, share))
    r, w, k, v4, a = (by_head(g, t) for t in (r, w, k, v, a))
    y = make(
        "rwkv_wkv7", g.state(il, "wkv"), r, w, k, v4, make("neg", kk), make("mul", kk, a), g.runs
    )
    y = head_norm(g, il, g.name(y, "wkv_out", il))
    r_k = reshape(g.layer(il, "time_mix_r_k.weight"), *r.ne[:2])
    bonus = make("mul", v4, make("sum_rows", make("mul", make("mul", k, r), r_k)))
    y = make("add", y, reshape(bonus, *y.ne))
    for x_g in rows[5:]:
        y = make("mul", y, low_rank(g, il, "time_mix_g", x_g, "sigmoid"))
    return linear(g, il, "time_mix_output", y), first
