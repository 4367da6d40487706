"""Attention over the cache: q, k, v, norms of q and k, rope, store, attend, gate, project."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from llamapy.graph.ops import make, permute, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import adapted, linear, linear_tensors, vector
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import Builder

NORMAL, NEOX = 0, 2  # rope modes: adjacent pairs, halves
# What a norm's weight covers: one head, each head with its own, all of a row.
# BARE: nothing, or a number for each head of q.
HEAD, HEADS, FULL, BARE = "head", "heads", "full", "bare"


def always(hp: HParams, il: int) -> bool:
    return True


def window_only(hp: HParams, il: int) -> bool:
    """Layers that see a window; all layers of a model that has none."""
    return hp.is_swa[il] or not any(hp.is_swa)


@dataclass(frozen=True, slots=True)
class Attn:
    """What tells one attention from another. Biases, sinks and the form of q, k and v (one matrix
    or three) are what the file has.

    rope: mode, None for no rope anywhere; `rope_at(hp, il)`: whether layer il has it
    rope_factors: whether the file may have factors that divide the frequencies of all layers:
        Llama 3's, or longrope's two sets, chosen by the length of the context;
        `factors_at(hp, il)`: whether layer il takes them
    qk_norm: the norm of q and k, '' for none, or what its weight covers; `qk_kind`: of which kind;
        `norm_last`: after the rope instead of before it; `norm_at(hp, il)`: whether layer il has it
    gate: what the result is multiplied by before the projection, made by `attn_gate` from what
        q is made from: '', 'sigmoid' or 'softplus', per element or per head as the matrix says;
        `gate_in_q`: there is no such matrix, `attn_q` gives each head's q, then its gate
    v_norm: whether each head of v is normed, without a weight
    sub_norm: whether the result is normed before the projection
    q_scale: a tensor by which q is multiplied after the rope, e.g. by position
    """

    rope: int | None = NEOX
    rope_at: Callable[[HParams, int], bool] = always
    rope_factors: bool = False
    factors_at: Callable[[HParams, int], bool] = always
    qk_norm: str = ""
    qk_kind: str = RMS
    norm_last: bool = False
    norm_at: Callable[[HParams, int], bool] = always
    gate: str = ""
    gate_in_q: bool = False
    v_norm: bool = False
    sub_norm: bool = False
    q_scale: Callable[[Builder, int], Tensor | None] | None = None


def rope(g: Builder, il: int, x: Tensor, mode: int, by: Tensor | None, n_dims: int = 0) -> Tensor:
    """Rotate the first n_rot elements of each head. x [n_embd_head, n_head, n_tokens]"""
    r = g.hp.rope_of(il)
    srcs = (x, g.pos) if by is None else (x, g.pos, by)
    return make(
        "rope",
        *srcs,
        n_dims=n_dims or g.hp.n_rot_of(il),
        mode=mode,
        n_ctx_orig=r.n_ctx_orig,
        sections=r.sections,
        freq_base=r.freq_base,
        freq_scale=r.freq_scale,
        ext_factor=r.ext_factor,
        attn_factor=r.attn_factor,
        beta_fast=r.beta_fast,
        beta_slow=r.beta_slow,
    )


def _by_head(x: Tensor) -> Tensor:
    """[n, heads, rows] as [n, rows, heads], and back."""
    return permute(x, 0, 2, 1)


def store_and_attend(
    g: Builder, il: int, q: Tensor, k: Tensor, v: Tensor, sinks: Tensor | None = None
) -> Tensor:
    """Write k [n_embd_head_k, n_head_kv, n_tokens] and v to their cells, then attend.
    q [n_embd_head_k, n_head, n_tokens] -> [n_embd_head_v * n_head, n_tokens]"""
    store(g, il, k, v)
    return attend(g, il, q, sinks)


def store(g: Builder, il: int, k: Tensor, v: Tensor | None) -> None:
    """Write k [n_embd_head_k, n_head_kv, n_tokens] and v to their cells; no v where the cache has
    it as a part of K."""
    cache = g.memory.layer(il)
    rows = g.group(cache.group).rows
    cells_k = g.name(make("set_rows", cache.k, _by_head(k), rows), "cache_k_set", il)
    if v is None:
        cells_v = view(cells_k, cache.v.ne, cache.v.nb[1:])
    else:
        cells_v = make("set_rows", cache.v, _by_head(v), rows)
    g.expand(cells_k, g.name(cells_v, "cache_v_set", il))
    g.stored[cache.k] = cells_k, cells_v


def attend(g: Builder, il: int, q: Tensor, more: Tensor | None = None) -> Tensor:
    """Attend to the cells of layer `il`, or of the layer whose cache it shares. `more`: sinks
    [n_head], or biases by distance [n_head, 2 reach + 1].
    q [n_embd_head_k, n_head, n_tokens] -> [n_embd_head_v * n_head, n_tokens]"""
    hp, cache = g.hp, g.memory.layer(il)
    group = g.group(cache.group)
    cells_k, cells_v = g.stored.get(cache.k, (cache.k, cache.v))
    out = make(
        "flash_attn",
        q,
        _by_head(cells_k),
        _by_head(cells_v),
        group.idx,
        group.range,
        *(() if more is None else (more,)),
        scale=hp.attention_scale or 1.0 / math.sqrt(q.ne[0]),
        max_bias=hp.max_alibi_bias,
        softcap=hp.attn_softcap,
    )
    return g.name(out, "kqv_out", il)


def qkv(g: Builder, il: int, x: Tensor, a: Attn) -> tuple[Tensor, Tensor, Tensor]:
    """q [n_embd_head_k (twice that with a gate in it), n_head, n_tokens], k and v with n_head_kv
    heads, norms of q and k over all heads included. x [n_embd, n_tokens]"""
    hp, clamp = g.hp, g.hp.clamp_kqv
    heads = (hp.n_head[il], hp.n_head_kv[il], hp.n_head_kv[il])
    size_q = hp.head_k(il) * (1 + a.gate_in_q)
    sizes = (size_q, hp.head_k(il), hp.head_v(il))
    if g.maybe_layer(il, "attn_qkv.weight") is None:
        rows = [linear(g, il, name, x) for name in ("attn_q", "attn_k")]
        no_v = g.maybe_layer(il, "attn_v.weight") is None
        rows.append(rows[1] if no_v else linear(g, il, "attn_v", x))
        if clamp:
            rows = [make("clamp", r, min=-clamp, max=clamp) for r in rows]
    else:
        all_rows = linear(g, il, "attn_qkv", x)
        if clamp:
            all_rows = make("clamp", all_rows, min=-clamp, max=clamp)
        rows, first = [], 0
        for n_head, size in zip(heads, sizes, strict=True):
            n = n_head * size
            rows.append(view(all_rows, (n, all_rows.ne[1]), (all_rows.nb[1],), 4 * first))
            first += n
        rows = [adapted(g, il, f"attn_{c}", x, r) for c, r in zip("qkv", rows, strict=True)]
    g.expand(*rows)  # side by side, so that they can be computed side by side
    if a.qk_norm == FULL:
        for i, name in enumerate(("q", "k")):
            if g.maybe_layer(il, "attn_q_norm.weight") is not None:
                rows[i] = norm(g, a.qk_kind, rows[i], f"attn_{name}_norm", f"{name}_norm", il)
    q, k, v = (
        _split_heads(r, size, n_head) for r, size, n_head in zip(rows, sizes, heads, strict=True)
    )
    return q, k, v


def _split_heads(x: Tensor, size: int, n_head: int) -> Tensor:
    """[size * n_head, n_tokens] as [size, n_head, n_tokens]."""
    if x.is_contiguous:
        return reshape(x, size, n_head, x.ne[1])
    return view(x, (size, n_head, x.ne[1]), (4 * size, x.nb[1]))


def _norm_heads(g: Builder, il: int, q: Tensor, k: Tensor, a: Attn) -> tuple[Tensor, Tensor]:
    if a.qk_norm not in (HEAD, HEADS, BARE) or not a.norm_at(g.hp, il):
        return q, k
    q = _norm_head(g, il, q, a, "q")
    k = _norm_head(g, il, k, a, "k")
    g.expand(q, k)
    return q, k


def _norm_head(g: Builder, il: int, x: Tensor, a: Attn, name: str) -> Tensor:
    if a.qk_norm != BARE and g.maybe_layer(il, f"attn_{name}_norm.weight") is None:
        return x
    return norm(g, a.qk_kind, x, f"attn_{name}_norm", f"{name}_norm", il)


def factors(g: Builder, il: int, a: Attn) -> Tensor | None:
    """What divides the frequencies, f32 [n_rot / 2]."""
    if not a.rope_factors or not a.factors_at(g.hp, il):
        return None
    by = g.maybe("rope_freqs.weight")
    if by is None:
        longer = g.n_ctx > g.hp.rope.n_ctx_orig
        by = g.maybe("rope_factors_long.weight" if longer else "rope_factors_short.weight")
    n = g.hp.n_rot_of(il) // 2
    return by if by is None or by.ne[0] == n else view(by, (n,), ())


def factor_tensors(hp: HParams) -> list[TensorSpec]:
    names = ("rope_freqs", "rope_factors_long", "rope_factors_short")
    ne = (max(hp.n_rot, hp.n_rot_swa) // 2,)
    return [TensorSpec(f"{name}.weight", ne, 0, "layer", False, "rope") for name in names]


def rotate(g: Builder, il: int, q: Tensor, k: Tensor, a: Attn) -> tuple[Tensor, Tensor]:
    if a.rope is None or not a.rope_at(g.hp, il):
        return q, k
    by = factors(g, il, a)
    q = g.name(rope(g, il, q, a.rope, by), "q_rope", il)
    k = g.name(rope(g, il, k, a.rope, by), "k_rope", il)
    g.expand(q, k)
    return q, k


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Both halves of each row. [2 * n, n_head, n_tokens]"""
    ne = (x.ne[0] // 2, *x.ne[1:])
    return view(x, ne, x.nb[1:]), view(x, ne, x.nb[1:], x.nb[1] // 2)


def gated(g: Builder, il: int, out: Tensor, x: Tensor, act: str) -> Tensor:
    """`out` [n_embd_head_v * n_head, n_tokens] times act(attn_gate(x)), which is as wide or has a
    number per head."""
    w = make(act, make("mul_mat", g.layer(il, "attn_gate.weight"), x))
    if w.ne[0] == out.ne[0]:
        return make("mul", out, w)
    n_head, n = w.ne[0], out.ne[1]
    by_head = reshape(out, out.ne[0] // n_head, n_head, n)
    return reshape(make("mul", by_head, reshape(w, 1, n_head, n)), out.ne[0], n)


def _q_alone(g: Builder, il: int, x: Tensor, a: Attn) -> Tensor:
    """q of a layer that reads another one's K and V."""
    hp = g.hp
    if g.maybe_layer(il, "attn_qkv.weight") is None:
        q = linear(g, il, "attn_q", x)
    else:
        rows = linear(g, il, "attn_qkv", x)
        q = view(rows, (hp.head_k(il) * hp.n_head[il], x.ne[1]), (rows.nb[1],))
    q = _norm_head(g, il, _split_heads(q, hp.head_k(il), hp.n_head[il]), a, "q")
    if a.rope is None or not a.rope_at(hp, il):
        return q
    return g.name(rope(g, il, q, a.rope, factors(g, il, a)), "q_rope", il)


def attention(g: Builder, il: int, x: Tensor, a: Attn) -> Tensor:
    """Self-attention of layer `il`. x [n_embd, n_tokens] -> [n_embd, n_tokens]"""
    if g.hp.reads_of(il) != il:
        return linear(g, il, "attn_output", attend(g, il, _q_alone(g, il, x, a)))
    q, k, v = qkv(g, il, x, a)
    q, gate = _halves(q) if a.gate_in_q else (q, None)
    if not a.norm_last:
        q, k = _norm_heads(g, il, q, k, a)
    q, k = rotate(g, il, q, k, a)
    if a.norm_last:
        q, k = _norm_heads(g, il, q, k, a)
    factor = a.q_scale(g, il) if a.q_scale else None
    if factor is not None:
        q = make("mul", q, factor)
    if a.v_norm:
        v = make("rms_norm", v, eps=g.hp.norm_rms_eps)
    out = store_and_attend(g, il, q, k, v, g.maybe_layer(il, "attn_sinks.weight"))
    if gate is not None:
        out = make("mul", out, reshape(make(a.gate, gate), *out.ne))
    elif a.gate:
        out = gated(g, il, out, x, a.gate)
    if a.sub_norm:
        out = norm(g, RMS, out, "attn_sub_norm", "attn_sub_norm", il)
    out = linear(g, il, "attn_output", out)
    scale = g.hp.attn_value_scale
    return out if scale == 1.0 else make("scale", out, scale=scale, bias=0.0)


def attention_tensors(hp: HParams, il: int, a: Attn, has: Has) -> list[TensorSpec]:
    n_embd, n_head, pre = hp.n_embd, hp.n_head[il], f"blk.{il}."
    n_q, n_out = hp.head_k(il) * n_head * (1 + a.gate_in_q), hp.head_v(il) * n_head
    n_k, n_v = hp.n_embd_k_gqa(il), hp.n_embd_v_gqa(il)
    if has(f"{pre}attn_qkv.weight") and not has(f"{pre}attn_q.weight"):
        specs = linear_tensors(il, "attn_qkv", n_embd, n_q + n_k + n_v)
    else:
        specs = [
            *linear_tensors(il, "attn_q", n_embd, n_q),
            *linear_tensors(il, "attn_k", n_embd, n_k),
            *linear_tensors(il, "attn_v", n_embd, n_v, required=not a.v_norm),
        ]
    specs += linear_tensors(il, "attn_output", n_out, n_embd)
    if a.qk_norm:
        size = hp.head_k(il)
        for name, n in (("q", n_head), ("k", hp.n_head_kv[il])):
            ne = {HEAD: (size,), HEADS: (size, n), FULL: (size * n,), BARE: (1, n)}[a.qk_norm]
            required = a.qk_kind == RMS and a.qk_norm != BARE
            specs += norm_tensors(hp, f"attn_{name}_norm", il, ne, required=required)
    if a.gate and not a.gate_in_q:
        weight = (n_embd, n_out)
        specs.append(
            TensorSpec(f"{pre}attn_gate.weight", weight, il, "layer", or_ne=(n_embd, n_head))
        )
    specs += norm_tensors(hp, "attn_sub_norm", il, (n_out,)) if a.sub_norm else []
    specs.append(vector(il, "attn_sinks.weight", n_head, required=False, op="flash_attn"))
    return specs
