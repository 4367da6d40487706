"""The gated delta net in the place of attention (Yang, Kautz and Hatamizadeh 2024, arXiv
2412.06464): q, k and v go through a short convolution, each head of v keeps a matrix that forgets
by a factor and is corrected by the delta rule, and what it answers is normed and gated.

The ssm keys say its shape: `n_group` heads of q and k, `dt_rank` heads of v, all of `d_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.conv import conv_tensors, convolve, part_of
from llamapy.models.blocks.decoder import Part
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.norm import RMS, norm, norm_tensors, unit
from llamapy.models.builder import Builder
from llamapy.models.caches import without_heads


def _beta_alpha(g: Builder, il: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of how much is corrected and forgotten, [n_head_v, n_tokens] each. In one matrix they
    stand by heads of k: those of its heads of v, beta first."""
    if g.maybe_layer(il, "ssm_ba.weight") is None:
        return linear(g, il, "ssm_beta", x), linear(g, il, "ssm_alpha", x)
    n_k, n_v = g.hp.ssm.n_group, g.hp.ssm.dt_rank
    r = n_v // n_k
    both = reshape(linear(g, il, "ssm_ba", x), 2 * r, n_k, x.ne[1])
    halves = (view(both, (r, *both.ne[1:3]), both.nb[1:], 4 * r * i) for i in (0, 1))
    beta, alpha = (reshape(make("cpy", h, type="f32"), n_v, x.ne[1]) for h in halves)
    return beta, alpha


def _qkv_z(g: Builder, il: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """What the convolution reads, q, k and v of all heads, and the gate. In one matrix of old files
    they stand by heads of k: its q, its k, then v and gate of its heads of v."""
    if g.maybe_layer(il, "ssm_in.weight") is None:
        return linear(g, il, "attn_qkv", x), linear(g, il, "attn_gate", x)
    s, n = g.hp.ssm, x.ne[1]
    n_v = s.d_inner // s.n_group
    rows = reshape(linear(g, il, "ssm_in", x), 2 * (s.d_state + n_v), s.n_group, n)
    parts, first = [], 0
    for size in (s.d_state, s.d_state, n_v, n_v):
        part = view(rows, (size, *rows.ne[1:3]), rows.nb[1:], 4 * first)
        parts.append(reshape(make("cpy", part, type="f32"), size * s.n_group, n))
        first += size
    q, k, v, z = parts
    return make("concat", make("concat", q, k, axis=0), v, axis=0), z


def gdn(g: Builder, il: int, x: Tensor, tiled: bool, gate: str) -> Tensor:
    """x [n_embd, n_tokens] -> the same. Head h of v reads head h // r of q and k, r being how many
    share one, or, `tiled`, h % n_group. `gate`: what opens the result."""
    s, n = g.hp.ssm, x.ne[1]
    mixed, z = _qkv_z(g, il, x)
    beta, alpha = _beta_alpha(g, il, x)
    g.expand(mixed, z, beta, alpha)
    mixed = make("silu", convolve(g, il, "ssm_conv1d", mixed))
    n_qk = s.d_state * s.n_group
    q, k = (part_of(mixed, i * n_qk, s.d_state, s.n_group) for i in (0, 1))
    v = part_of(mixed, 2 * n_qk, s.d_head, s.dt_rank)
    decay = make("softplus", make("add", alpha, g.layer(il, "ssm_dt.bias")))
    decay = make("mul", decay, g.layer(il, "ssm_a"))  # ssm_a is -exp(A)
    out = make(
        "gated_delta_net",
        g.state(il, "delta"),
        unit(q, g.hp.norm_rms_eps),
        unit(k, g.hp.norm_rms_eps),
        v,
        decay,
        make("sigmoid", beta),
        g.runs,
        tiled=int(tiled),
        scale=s.d_state**-0.5,
    )
    out = norm(g, RMS, g.name(out, "delta_out", il), "ssm_norm", "ssm_norm", il)
    out = reshape(out, s.d_inner, n)
    out = make("swiglu", z, out) if gate == "silu" else make("mul", out, make(gate, z))
    return linear(g, il, "ssm_out", out)


def gdn_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    s, n_embd = hp.ssm, hp.n_embd
    if has(f"blk.{il}.attn_qkv.weight"):
        into = {"attn_qkv": s.n_mixed, "attn_gate": s.d_inner}
    else:
        into = {"ssm_in": s.n_mixed + s.d_inner}
    if has(f"blk.{il}.ssm_ba.weight"):
        into["ssm_ba"] = 2 * s.dt_rank
    else:
        into |= {"ssm_beta": s.dt_rank, "ssm_alpha": s.dt_rank}
    return [
        *(spec for name, n in into.items() for spec in linear_tensors(il, name, n_embd, n)),
        *conv_tensors(il, "ssm_conv1d", s.d_conv, s.n_mixed),
        vector(il, "ssm_dt.bias", s.dt_rank, op="add"),
        vector(il, "ssm_a", s.dt_rank),
        *norm_tensors(hp, "ssm_norm", il, (s.d_head,)),
        *linear_tensors(il, "ssm_out", s.d_inner, n_embd),
    ]


def gdn_states(hp: HParams) -> Sequence[States]:
    """The last inputs of the convolution and the matrices."""
    s = hp.ssm
    conv, delta = (s.d_conv - 1, s.n_mixed), (s.d_state, s.d_head, s.dt_rank)
    return without_heads(hp, {"conv": conv, "delta": delta})


def gdn_at(tiled: bool, gate: str = "silu") -> Callable[[HParams, int], Part | None]:
    """The gated delta net in the layers without heads of K, as a decoder's `mixer`."""

    def build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
        return gdn(g, il, x, tiled, gate)

    return lambda hp, il: None if hp.n_head_kv[il] else Part(gdn_tensors, build)
