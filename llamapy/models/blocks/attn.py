"""Attention over the cache: q, k, v, optional norms of q and k, rope, store, attend, project."""

from __future__ import annotations

import math

from llamapy.graph.ops import make, permute, reshape
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.linear import linear, linear_tensors
from llamapy.models.blocks.norm import rms_norm
from llamapy.models.builder import Builder

NORMAL, NEOX = 0, 2  # rope modes: adjacent pairs, halves


def rope(g: Builder, il: int, x: Tensor, mode: int, factors: Tensor | None) -> Tensor:
    """Rotate the first n_rot elements of each head. x [n_embd_head, n_head, n_tokens]"""
    r = g.hp.rope_of(il)
    srcs = (x, g.pos) if factors is None else (x, g.pos, factors)
    return make(
        "rope",
        *srcs,
        n_dims=g.hp.n_rot,
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


def store_and_attend(g: Builder, il: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Write k [n_embd_head_k, n_head_kv, n_tokens] and v to their cells, then attend.
    q [n_embd_head_k, n_head, n_tokens] -> [n_embd_head_v * n_head, n_tokens]"""
    hp, cache = g.hp, g.memory.layer(il)
    group = g.group(cache.group)
    v = reshape(v, hp.n_embd_head_v, hp.n_head_kv[il], g.shape.n_tokens)
    cells_k = make("set_rows", cache.k, _by_head(k), group.rows)
    cells_v = make("set_rows", cache.v, _by_head(v), group.rows)
    g.expand(g.name(cells_k, "cache_k_set", il), g.name(cells_v, "cache_v_set", il))
    out = make(
        "flash_attn",
        q,
        _by_head(cells_k),
        _by_head(cells_v),
        group.idx,
        group.range,
        scale=hp.attention_scale or 1.0 / math.sqrt(hp.n_embd_head_k),
        max_bias=hp.max_alibi_bias,
        softcap=hp.attn_softcap,
    )
    return g.name(out, "kqv_out", il)


def attention(
    g: Builder,
    il: int,
    x: Tensor,
    *,
    rope_mode: int,
    rope_factors: Tensor | None = None,
    qk_norm: bool = False,
) -> Tensor:
    """Self-attention of layer `il`. x [n_embd, n_tokens] -> [n_embd, n_tokens]"""
    hp, n = g.hp, g.shape.n_tokens
    q, k, v = (linear(g, il, name, x) for name in ("attn_q", "attn_k", "attn_v"))
    g.expand(q, k, v)  # side by side, so that they can be computed side by side
    q = reshape(q, hp.n_embd_head_k, hp.n_head[il], n)
    k = reshape(k, hp.n_embd_head_k, hp.n_head_kv[il], n)
    if qk_norm:
        q = rms_norm(g, q, g.layer(il, "attn_q_norm.weight"), "q_norm", il)
        k = rms_norm(g, k, g.layer(il, "attn_k_norm.weight"), "k_norm", il)
        g.expand(q, k)
    q = g.name(rope(g, il, q, rope_mode, rope_factors), "q_rope", il)
    k = g.name(rope(g, il, k, rope_mode, rope_factors), "k_rope", il)
    g.expand(q, k)
    out = store_and_attend(g, il, q, k, v)
    return linear(g, il, "attn_output", out)


def attention_tensors(hp: HParams, il: int) -> list[TensorSpec]:
    n_embd = hp.n_embd
    return [
        *linear_tensors(il, "attn_q", n_embd, hp.n_embd_head_k * hp.n_head[il]),
        *linear_tensors(il, "attn_k", n_embd, hp.n_embd_k_gqa(il)),
        *linear_tensors(il, "attn_v", n_embd, hp.n_embd_v_gqa(il)),
        *linear_tensors(il, "attn_output", hp.n_embd_head_v * hp.n_head[il], n_embd),
    ]
