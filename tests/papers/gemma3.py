"""Gemma 3 (arXiv 2503.19786; Gemma 2's sandwich norms arXiv 2408.00118, GeGLU arXiv 2403.08295).

Where the file differs from the paper:
- RMS norms multiply by (1 + w) there; the file's weights hold the 1 already.
- `sliding_window_pattern` says which layers see a window; those turn at base 10000 (the paper's
  local base) unless the file says otherwise, the others at `rope.freq_base` (1M in real files).
- Queries are scaled by 1/sqrt(head size); the 27B model alone uses 1/sqrt(width / heads).
- The reference has q/k/v biases and its own output matrix; real files have neither.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, softmax

LAYERS_27B = 62


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def rotate(x: Array, base: float) -> Array:
    """x [token, head, d]: dimension i and i + d/2 turn together."""
    n, _, d = x.shape
    angle = np.outer(np.arange(n), base ** (-np.arange(0, d, 2) / d))[:, None, :]
    a, b = np.split(x, 2, -1)
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1
    )


def attention(w: Weights, il: int, x: Array) -> Array:
    blk, n, eps = f"blk.{il}", len(x), w.key("attention.layer_norm_rms_epsilon")
    n_head, n_head_kv = w.key("attention.head_count"), w.key("attention.head_count_kv")
    local = is_local(w, il)
    base = w.key("rope.freq_base", 10000.0)
    if local:
        base = w.key("rope.freq_base_swa", 10000.0)
    q = w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1)
    k = w.linear(x, f"{blk}.attn_k").reshape(n, n_head_kv, -1)
    v = w.linear(x, f"{blk}.attn_v").reshape(n, n_head_kv, -1)
    q = rotate(rms_norm(q, w[f"{blk}.attn_q_norm.weight"], eps), base)
    k = rotate(rms_norm(k, w[f"{blk}.attn_k_norm.weight"], eps), base)
    d = q.shape[-1]
    big = w.key("block_count") == LAYERS_27B
    scale = 1 / np.sqrt(w.key("embedding_length") / n_head if big else d)
    distance = np.arange(n)[:, None] - np.arange(n)  # of a key, backwards from its query
    seen = (distance >= 0) & (distance < (w.key("attention.sliding_window") if local else n))
    out = np.empty_like(q)
    for h in range(n_head):
        g = h * n_head_kv // n_head
        out[:, h] = softmax(np.where(seen, q[:, h] @ k[:, g].T * scale, -np.inf)) @ v[:, g]
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def is_local(w: Weights, il: int) -> bool:
    """Five local layers, then a global one, unless the file lists them."""
    pattern = w.key("attention.sliding_window_pattern", 6)
    return (il + 1) % pattern != 0 if isinstance(pattern, int) else bool(pattern[il])


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    x = w["token_embd.weight"][tokens] * np.sqrt(w.key("embedding_length"))
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        y = attention(w, il, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps))
        x = x + rms_norm(y, w[f"{blk}.post_attention_norm.weight"], eps)
        y = rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps)
        y = gelu(w.linear(y, f"{blk}.ffn_gate")) * w.linear(y, f"{blk}.ffn_up")
        y = w.linear(y, f"{blk}.ffn_down")
        x = x + rms_norm(y, w[f"{blk}.post_ffw_norm.weight"], eps)
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
