"""Llama (arXiv 2302.13971, 2307.09288; grouped keys and `rope_freqs` as in arXiv 2407.21783).

Where the file differs from the paper:
- Rotary pairs are neighbours (2i, 2i+1), as in Meta's own code: the converter permutes the halves
  that Hugging Face uses back into pairs.
- Every matrix may have a bias. Llama has none; the reference file has.
- `rope_freqs` divides the frequencies (Llama 3.1's scaling, worked out by the converter).
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, silu, softmax


def rotate(x: Array, angle: Array) -> Array:
    """x [token, head, d]: each pair (2i, 2i+1) is a complex number turned by angle [token, d/2]."""
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * angle)[:, None, :]
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def attention(w: Weights, blk: str, x: Array, angle: Array) -> Array:
    n, n_head = len(x), w.key("attention.head_count")
    q = rotate(w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1), angle)
    n_head_kv = w.key("attention.head_count_kv", n_head)
    k = rotate(w.linear(x, f"{blk}.attn_k").reshape(n, n_head_kv, -1), angle)
    v = w.linear(x, f"{blk}.attn_v").reshape(n, n_head_kv, -1)
    hidden = np.triu(np.full((n, n), -np.inf), 1)
    out = np.empty_like(q)
    for h in range(n_head):
        g = h * n_head_kv // n_head
        score = q[:, h] @ k[:, g].T / np.sqrt(q.shape[-1])
        out[:, h] = softmax(score + hidden) @ v[:, g]
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    d = w.key("rope.dimension_count")
    freq = w.key("rope.freq_base", 10000.0) ** (-np.arange(0, d, 2) / d)
    if "rope_freqs.weight" in w:
        freq = freq / w["rope_freqs.weight"]
    angle = np.outer(np.arange(len(tokens)), freq)
    x = w["token_embd.weight"][tokens]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + attention(w, blk, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps), angle)
        y = rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps)
        y = silu(w.linear(y, f"{blk}.ffn_gate")) * w.linear(y, f"{blk}.ffn_up")
        x = x + w.linear(y, f"{blk}.ffn_down")
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
