"""Qwen3-Next (model card and Hugging Face code of Qwen3-Next-80B-A3B; the gated delta rule is
arXiv 2412.06464, equation (10)).

Where the file differs from the model code:
- RMS norms multiply by (1 + w) there (but not the delta net's output norm); the file holds the 1.
- `ssm_a` holds -exp(A_log). `attn_qkv` gives queries, keys and values; `attn_gate` gives z;
  `ssm_ba` still holds, per key head, the betas and then the alphas of its value heads.
- Full attention's `attn_q` gives, per head, the query and then the output gate.
- q and k are divided by max(|x|, eps) in the peer, by sqrt(|x|^2 + 1e-6) in the model code.
- `post_attention_norm` is the norm before the experts.
- The reference file also has the unused `ssm_in`, and q/k/v biases.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, sigmoid, silu, softmax


def conv(w: Weights, blk: str, x: Array) -> Array:
    taps = w[f"{blk}.ssm_conv1d.weight"]  # [channel, K], the last tap is the present token
    n, k = len(x), taps.shape[1]
    padded = np.concatenate([np.zeros((k - 1, x.shape[1])), x])
    return silu(sum(padded[j : j + n] * taps[:, j] for j in range(k)))


def unit(x: Array, eps: float) -> Array:
    return x / np.maximum(np.sqrt((x**2).sum(-1, keepdims=True)), eps)


def delta_net(w: Weights, blk: str, x: Array) -> Array:
    """S_t = a_t S_(t-1) (I - b_t k_t k_t^T) + b_t v_t k_t^T;  o_t = S_t q_t / sqrt(d), per head."""
    n, d, eps = len(x), w.key("ssm.state_size"), w.key("attention.layer_norm_rms_epsilon")
    n_k, n_v = w.key("ssm.group_count"), w.key("ssm.time_step_rank")
    mixed = conv(w, blk, w.linear(x, f"{blk}.attn_qkv"))
    q, k, v = (t.reshape(n, -1, d) for t in np.split(mixed, [n_k * d, 2 * n_k * d], 1))
    q, k = (np.repeat(unit(t, eps), n_v // n_k, 1) for t in (q, k))
    z = w.linear(x, f"{blk}.attn_gate").reshape(n, n_v, d)
    ba = w.linear(x, f"{blk}.ssm_ba").reshape(n, n_k, 2, n_v // n_k)
    beta, alpha = sigmoid(ba[:, :, 0]).reshape(n, n_v), ba[:, :, 1].reshape(n, n_v)
    decay = np.exp(w[f"{blk}.ssm_a"] * np.log1p(np.exp(alpha + w[f"{blk}.ssm_dt.bias"])))
    state, out = np.zeros((n_v, d, d)), np.empty((n, n_v, d))  # state [head, value, key]
    for t in range(n):
        state = state * decay[t, :, None, None]
        wrong = v[t] - np.einsum("hvk,hk->hv", state, k[t])
        state = state + np.einsum("h,hv,hk->hvk", beta[t], wrong, k[t])
        out[t] = np.einsum("hvk,hk->hv", state, q[t]) / np.sqrt(d)
    out = rms_norm(out, w[f"{blk}.ssm_norm.weight"], eps) * silu(z)
    return w.linear(out.reshape(n, -1), f"{blk}.ssm_out")


def rotate(w: Weights, x: Array) -> Array:
    """x [token, head, d]: i and i + n_rot/2 turn together; dimensions past n_rot stay."""
    d = w.key("rope.dimension_count")
    freq = w.key("rope.freq_base", 10000.0) ** (-np.arange(0, d, 2) / d)
    z = x[..., : d // 2] + 1j * x[..., d // 2 : d]
    z = z * np.exp(1j * np.outer(np.arange(len(x)), freq))[:, None, :]
    return np.concatenate([z.real, z.imag, x[..., d:]], -1)


def attention(w: Weights, blk: str, x: Array) -> Array:
    n, eps = len(x), w.key("attention.layer_norm_rms_epsilon")
    n_head, n_head_kv = w.key("attention.head_count"), w.key("attention.head_count_kv")
    q, gate = np.split(w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1), 2, -1)
    k, v = (w.linear(x, f"{blk}.attn_{c}").reshape(n, n_head_kv, -1) for c in "kv")
    q = rotate(w, rms_norm(q, w[f"{blk}.attn_q_norm.weight"], eps))
    k = rotate(w, rms_norm(k, w[f"{blk}.attn_k_norm.weight"], eps))
    k, v = (np.repeat(t, n_head // t.shape[1], 1) for t in (k, v))
    score = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    p = softmax(np.where(np.tri(n, dtype=bool), score, -np.inf))
    out = np.einsum("hqk,khd->qhd", p, v) * sigmoid(gate)
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def experts(w: Weights, blk: str, x: Array) -> Array:
    """The best experts by softmax, weights made to sum to 1, and a shared one behind a gate."""
    y = silu(w.linear(x, f"{blk}.ffn_gate_shexp")) * w.linear(x, f"{blk}.ffn_up_shexp")
    weight = sigmoid(x @ w[f"{blk}.ffn_gate_inp_shexp.weight"].reshape(-1, 1))
    out = w.linear(y, f"{blk}.ffn_down_shexp") * weight
    if f"{blk}.ffn_gate_up_exps.weight" in w:
        gate, up = np.split(w[f"{blk}.ffn_gate_up_exps.weight"], 2, 1)
    else:
        gate, up = w[f"{blk}.ffn_gate_exps.weight"], w[f"{blk}.ffn_up_exps.weight"]
    share = softmax(w.linear(x, f"{blk}.ffn_gate_inp"))
    for t, row in enumerate(x):
        best = np.argsort(-share[t])[: w.key("expert_used_count")]
        for e in best:
            y = w[f"{blk}.ffn_down_exps.weight"][e] @ (silu(gate[e] @ row) * (up[e] @ row))
            out[t] += share[t, e] / share[t, best].sum() * y
    return out


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps, n_layer = w.key("attention.layer_norm_rms_epsilon"), w.key("block_count")
    every = w.key("full_attention_interval", 4)
    recurrent = w.key("attention.recurrent_layers", [(i + 1) % every != 0 for i in range(n_layer)])
    x = w["token_embd.weight"][tokens]
    for il in range(n_layer):
        blk = f"blk.{il}"
        mix = delta_net if recurrent[il] else attention
        x = x + mix(w, blk, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps))
        x = x + experts(w, blk, rms_norm(x, w[f"{blk}.post_attention_norm.weight"], eps))
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
