"""Phi-3 (arXiv 2404.14219; its long-context rotation is LongRoPE, arXiv 2402.13753).

Where the file differs from the paper:
- LongRoPE's factors are two tensors, `rope_factors_short` up to the original context length and
  `rope_factors_long` beyond; each divides a frequency. What the paper multiplies cos and sin with,
  sqrt(1 + ln(s) / ln(original length)), is the key `rope.scaling.attn_factor`.
- q, k, v come as one matrix from real files, as three (with biases) in the reference.
- `ffn_up` holds the gate's rows first, then up's.
- Real files name a window of attention; the peer ignores it, and so does this pass.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, silu, softmax


def angles(w: Weights, n: int) -> Array:
    """[token, n_rot / 2]"""
    d = w.key("rope.dimension_count")
    freq = w.key("rope.freq_base", 10000.0) ** (-np.arange(0, d, 2) / d)
    original = w.key("rope.scaling.original_context_length", w.key("context_length"))
    name = f"rope_factors_{'short' if n <= original else 'long'}.weight"
    return np.outer(np.arange(n), freq / w[name] if name in w else freq)


def rotate(x: Array, angle: Array, scale: float) -> Array:
    """x [token, head, d]: i and i + n_rot/2 turn together; dimensions past n_rot stay."""
    half = angle.shape[1]
    cos, sin = np.cos(angle)[:, None, :] * scale, np.sin(angle)[:, None, :] * scale
    a, b, rest = np.split(x, [half, 2 * half], -1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin, rest], -1)


def queries_keys_values(w: Weights, blk: str, x: Array) -> list[Array]:
    """Three arrays [token, head, d]."""
    n_head, n_head_kv = w.key("attention.head_count"), w.key("attention.head_count_kv")
    if f"{blk}.attn_qkv.weight" in w:
        y = w.linear(x, f"{blk}.attn_qkv")
    else:
        y = np.concatenate([w.linear(x, f"{blk}.attn_{c}") for c in "qkv"], -1)
    y = y.reshape(len(x), n_head + 2 * n_head_kv, -1)
    return np.split(y, [n_head, n_head + n_head_kv], 1)


def attention(w: Weights, blk: str, x: Array) -> Array:
    n, scale = len(x), w.key("rope.scaling.attn_factor", 1.0)
    q, k, v = queries_keys_values(w, blk, x)
    q, k = rotate(q, angles(w, n), scale), rotate(k, angles(w, n), scale)
    heads_per_key = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t, heads_per_key, 1) for t in (k, v))
    score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    score = np.where(np.tri(n, dtype=bool), score, -np.inf)
    out = np.einsum("hqk,khd->qhd", softmax(score), v)
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    x = w["token_embd.weight"][tokens]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + attention(w, blk, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps))
        y = w.linear(rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps), f"{blk}.ffn_up")
        gate, up = np.split(y, 2, -1)
        x = x + w.linear(silu(gate) * up, f"{blk}.ffn_down")
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
