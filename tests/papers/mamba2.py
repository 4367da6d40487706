"""Mamba-2 (arXiv 2405.21060): the recurrence itself, one token after the other.

Where the file differs from the paper's code:
- `ssm_a` holds A = -exp(A_log).
- `ssm_in` gives z, x, B, C, dt in this order; the convolution's last tap is the present token.
- `ssm_norm` [group, d] normalises each group by itself.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, silu


def causal_conv(w: Weights, name: str, x: Array) -> Array:
    """Each channel by itself: sum over j of taps[j] * x[t - (K - 1) + j], plus a bias."""
    taps = w[f"{name}.weight"]  # [channel, K]
    n, k = len(x), taps.shape[1]
    padded = np.concatenate([np.zeros((k - 1, x.shape[1])), x])
    return sum(padded[j : j + n] * taps[:, j] for j in range(k)) + w[f"{name}.bias"]


def scan(w: Weights, blk: str, x: Array, b: Array, c: Array, dt: Array) -> Array:
    """h_t = exp(dt A) h_(t-1) + dt x_t B_t^T;  y_t = h_t C_t + D x_t  (x [token, head, p],
    b and c [token, group, state], dt [token, head])."""
    n, n_head, _ = x.shape
    b, c = (np.repeat(t, n_head // t.shape[1], 1) for t in (b, c))  # a group serves many heads
    a, d = w[f"{blk}.ssm_a"].reshape(n_head), w[f"{blk}.ssm_d"].reshape(n_head, 1)
    h = np.zeros((n_head, x.shape[2], b.shape[2]))
    y = np.empty_like(x)
    for t in range(n):
        decay = np.exp(dt[t] * a)[:, None, None]
        h = decay * h + (dt[t, :, None] * x[t])[:, :, None] * b[t, :, None, :]
        y[t] = np.einsum("hps,hs->hp", h, c[t]) + d * x[t]
    return y


def mixer(w: Weights, blk: str, u: Array) -> Array:
    n, inner, state = len(u), w.key("ssm.inner_size"), w.key("ssm.state_size")
    n_head, n_group = w.key("ssm.time_step_rank"), w.key("ssm.group_count")
    z, xbc, dt = np.split(w.linear(u, f"{blk}.ssm_in"), [inner, 2 * inner + 2 * n_group * state], 1)
    xbc = silu(causal_conv(w, f"{blk}.ssm_conv1d", xbc))
    x, b, c = np.split(xbc, [inner, inner + n_group * state], 1)
    dt = np.log1p(np.exp(dt + w[f"{blk}.ssm_dt.bias"]))
    b, c = b.reshape(n, n_group, state), c.reshape(n, n_group, state)
    y = scan(w, blk, x.reshape(n, n_head, -1), b, c, dt).reshape(n, inner)
    norm, eps = w[f"{blk}.ssm_norm.weight"], w.key("attention.layer_norm_rms_epsilon")
    y = rms_norm((y * silu(z)).reshape(n, n_group, -1), norm.reshape(n_group, -1), eps)
    return w.linear(y.reshape(n, inner), f"{blk}.ssm_out")


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    x = w["token_embd.weight"][tokens]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + mixer(w, blk, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps))
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
