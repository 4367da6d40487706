"""Qwen3 mixture of experts (arXiv 2505.09388, and the model card of Qwen3-30B-A3B).

Where the file differs from the report: all experts of a layer are one tensor [expert, out, in];
the reference has q/k/v biases, which Qwen3 dropped.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, silu, softmax


def rotate(x: Array, base: float) -> Array:
    """x [token, head, d]: dimension i and i + d/2 turn together."""
    n, _, d = x.shape
    turn = np.exp(1j * np.outer(np.arange(n), base ** (-np.arange(0, d, 2) / d)))[:, None, :]
    z = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * turn
    return np.concatenate([z.real, z.imag], -1)


def attention(w: Weights, blk: str, x: Array) -> Array:
    n, eps = len(x), w.key("attention.layer_norm_rms_epsilon")
    n_head, n_head_kv = w.key("attention.head_count"), w.key("attention.head_count_kv")
    base = w.key("rope.freq_base", 10000.0)
    q = w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1)
    k = w.linear(x, f"{blk}.attn_k").reshape(n, n_head_kv, -1)
    v = w.linear(x, f"{blk}.attn_v").reshape(n, n_head_kv, -1)
    q = rotate(rms_norm(q, w[f"{blk}.attn_q_norm.weight"], eps), base)
    k = rotate(rms_norm(k, w[f"{blk}.attn_k_norm.weight"], eps), base)
    out = np.empty_like(q)
    for t in range(n):
        for h in range(n_head):
            g = h * n_head_kv // n_head
            p = softmax(k[: t + 1, g] @ q[t, h] / np.sqrt(q.shape[-1]))
            out[t, h] = p @ v[: t + 1, g]
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def experts(w: Weights, blk: str, x: Array) -> Array:
    """The best experts of each token, weighted by their softmax over all, made to sum to 1."""
    gate, up, down = (w[f"{blk}.ffn_{c}_exps.weight"] for c in ("gate", "up", "down"))
    share = softmax(w.linear(x, f"{blk}.ffn_gate_inp"))
    out = np.zeros_like(x)
    for t, row in enumerate(x):
        best = np.argsort(-share[t])[: w.key("expert_used_count")]
        for e in best:
            y = down[e] @ (silu(gate[e] @ row) * (up[e] @ row))
            out[t] += share[t, e] / share[t, best].sum() * y
    return out


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    x = w["token_embd.weight"][tokens]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + attention(w, blk, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps))
        x = x + experts(w, blk, rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps))
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
