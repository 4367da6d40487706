"""LFM2 (model card and Hugging Face code of LFM2-1.2B; arXiv 2511.23404).

Where the file differs from the model code:
- The norm after the last layer is called `token_embd_norm` in the file.
- A layer without key heads is a gated short convolution; `shortconv.in_proj` gives B, C, x.
- A window of attention, where the file names one, holds for every attention layer.
- The reference has q/k/v biases and its own output matrix; real files have neither, nor a window.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, silu, softmax


def short_conv(w: Weights, blk: str, x: Array) -> Array:
    """y = C * conv(B * x): each channel by itself, causal, the last tap is the present token."""
    b, c, x = np.split(w.linear(x, f"{blk}.shortconv.in_proj"), 3, -1)
    taps = w[f"{blk}.shortconv.conv.weight"]  # [channel, K]
    n, k = len(x), taps.shape[1]
    padded = np.concatenate([np.zeros((k - 1, x.shape[1])), b * x])
    y = c * sum(padded[j : j + n] * taps[:, j] for j in range(k))
    return w.linear(y, f"{blk}.shortconv.out_proj")


def rotate(x: Array, base: float) -> Array:
    """x [token, head, d]: dimension i and i + d/2 turn together."""
    n, _, d = x.shape
    turn = np.exp(1j * np.outer(np.arange(n), base ** (-np.arange(0, d, 2) / d)))[:, None, :]
    z = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * turn
    return np.concatenate([z.real, z.imag], -1)


def attention(w: Weights, blk: str, x: Array, n_head: int, n_head_kv: int) -> Array:
    n, eps, base = len(x), w.key("attention.layer_norm_rms_epsilon"), w.key("rope.freq_base", 1e4)
    q = w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1)
    k = w.linear(x, f"{blk}.attn_k").reshape(n, n_head_kv, -1)
    v = w.linear(x, f"{blk}.attn_v").reshape(n, n_head_kv, -1)
    q = rotate(rms_norm(q, w[f"{blk}.attn_q_norm.weight"], eps), base)
    k = rotate(rms_norm(k, w[f"{blk}.attn_k_norm.weight"], eps), base)
    distance = np.arange(n)[:, None] - np.arange(n)  # of a key, backwards from its query
    seen = (distance >= 0) & (distance < w.key("attention.sliding_window", n))
    out = np.empty_like(q)
    for h in range(n_head):
        g = h * n_head_kv // n_head
        score = np.where(seen, q[:, h] @ k[:, g].T / np.sqrt(q.shape[-1]), -np.inf)
        out[:, h] = softmax(score) @ v[:, g]
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    heads, heads_kv = w.key("attention.head_count"), w.key("attention.head_count_kv")
    x = w["token_embd.weight"][tokens]
    for il, n_head_kv in enumerate(heads_kv):
        blk = f"blk.{il}"
        y = rms_norm(x, w[f"{blk}.attn_norm.weight"], eps)
        if n_head_kv:
            n_head = heads if isinstance(heads, int) else heads[il]
            x = x + attention(w, blk, y, n_head, n_head_kv)
        else:
            x = x + short_conv(w, blk, y)
        y = rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps)
        y = silu(w.linear(y, f"{blk}.ffn_gate")) * w.linear(y, f"{blk}.ffn_up")
        x = x + w.linear(y, f"{blk}.ffn_down")
    return w.unembed(rms_norm(x, w["token_embd_norm.weight"], eps))
