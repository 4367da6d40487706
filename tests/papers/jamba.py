"""Jamba (arXiv 2403.19887): Mamba (arXiv 2312.00752) with norms of the step sizes, B and C; some
layers attend, without positions; some choose among experts.

Where the file differs from the papers' code:
- `ssm_a` holds A = -exp(A_log).
- `ssm_in` gives x, z; `ssm_x` what the step sizes are made from, then B, C.
- The layers without heads of k are Mamba's, those with a router have experts.
"""

from __future__ import annotations

import numpy as np
from papers.mamba2 import causal_conv
from papers.weights import Array, Weights, rms_norm, silu, softmax


def mamba(w: Weights, blk: str, u: Array, eps: float) -> Array:
    """h_t = exp(dt A) h_(t-1) + dt B_t x_t;  y_t = C_t h_t + D x_t, for each channel."""
    inner, state = w.key("ssm.inner_size"), w.key("ssm.state_size")
    rank = w.key("ssm.time_step_rank")
    x, z = np.split(w.linear(u, f"{blk}.ssm_in"), 2, 1)
    x = silu(causal_conv(w, f"{blk}.ssm_conv1d", x))
    parts = np.split(w.linear(x, f"{blk}.ssm_x"), [rank, rank + state], 1)
    dt, b, c = (
        rms_norm(part, w[f"{blk}.ssm_{name}_norm.weight"], eps)
        for part, name in zip(parts, ("dt", "b", "c"), strict=True)
    )
    dt = np.log1p(np.exp(w.linear(dt, f"{blk}.ssm_dt")))  # [token, channel]
    h, y = np.zeros((inner, state)), np.empty_like(x)
    for t in range(len(u)):
        h = np.exp(dt[t][:, None] * w[f"{blk}.ssm_a"]) * h + np.outer(dt[t] * x[t], b[t])
        y[t] = h @ c[t] + w[f"{blk}.ssm_d"] * x[t]
    return w.linear(y * silu(z), f"{blk}.ssm_out")


def attention(w: Weights, blk: str, x: Array, n_head: int, n_head_kv: int) -> Array:
    """Causal, and blind to positions otherwise."""
    n = len(x)
    q = w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1)
    k, v = (w.linear(x, f"{blk}.attn_{i}").reshape(n, n_head_kv, -1) for i in "kv")
    future = np.triu(np.ones((n, n), bool), 1)
    out = np.empty_like(q)
    for h in range(n_head):
        g = h * n_head_kv // n_head
        score = q[:, h] @ k[:, g].T / np.sqrt(q.shape[-1])
        out[:, h] = softmax(np.where(future, -np.inf, score)) @ v[:, g]
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def gated(x: Array, gate: Array, up: Array, down: Array) -> Array:
    return (silu(x @ gate.T) * (x @ up.T)) @ down.T


def experts(w: Weights, blk: str, x: Array) -> Array:
    """The likeliest of softmax(router), weighted by what it gave them."""
    likely = softmax(w.linear(x, f"{blk}.ffn_gate_inp"))
    matrices = [w[f"{blk}.ffn_{name}_exps.weight"] for name in ("gate", "up", "down")]
    out = np.zeros_like(x)
    for t, row in enumerate(likely):
        for e in np.argsort(-row)[: w.key("expert_used_count")]:
            out[t] += row[e] * gated(x[t], *(m[e] for m in matrices))
    return out


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps, n_head = w.key("attention.layer_norm_rms_epsilon"), w.key("attention.head_count")
    x = w["token_embd.weight"][tokens]
    for il, n_head_kv in enumerate(w.key("attention.head_count_kv")):
        blk = f"blk.{il}"
        y = rms_norm(x, w[f"{blk}.attn_norm.weight"], eps)
        attends = n_head_kv > 0
        x = x + (attention(w, blk, y, n_head, n_head_kv) if attends else mamba(w, blk, y, eps))
        y = rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps)
        if f"{blk}.ffn_gate_inp.weight" in w:
            x = x + experts(w, blk, y)
        else:
            x = x + gated(y, *(w[f"{blk}.ffn_{name}.weight"] for name in ("gate", "up", "down")))
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
