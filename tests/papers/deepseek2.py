"""DeepSeek-V2 and V3 (arXiv 2405.04434 section 2.1, arXiv 2412.19437 section 2.1.2, and the model
code of DeepSeek-V3; YaRN arXiv 2309.00071).

Where the file differs from the papers:
- The up-projection of keys and values is cut in two: `attn_k_b` [head, rank, d] (transposed) and
  `attn_v_b` [head, d, rank]. They serve the absorbed form; this pass makes the keys and values.
- Rotary pairs are neighbours (2i, 2i+1).
- Gate and up of the experts may be one tensor, gate's rows first.
- The peer weighs experts over a sum of at least 6.1e-5 (the paper adds 1e-20), and in V2's
  softmax gating with groups it ranks groups as V3 does, by their two best experts.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, rms_norm, sigmoid, silu, softmax

SIGMOID = 2  # `expert_gating_func`; 1 is softmax


def yarn(w: Weights) -> tuple[Array, float]:
    """Frequencies [n_rot / 2], and what attention scores are multiplied with (YaRN's m^2)."""
    d, base = w.key("rope.dimension_count"), w.key("rope.freq_base", 10000.0)
    freq = base ** (-np.arange(0, d, 2) / d)
    if w.key("rope.scaling.type", "none") != "yarn":
        return freq, 1.0
    factor = w.key("rope.scaling.factor")
    length = w.key("rope.scaling.original_context_length")

    def turns(n: float) -> float:  # the dimension that turns n times within `length`
        return d * np.log(length / (n * 2 * np.pi)) / (2 * np.log(base))

    low, high = max(np.floor(turns(32)), 0), min(np.ceil(turns(1)), d - 1)
    slow = np.clip((np.arange(d // 2) - low) / max(high - low, 0.001), 0, 1)
    mscale = 1 + w.key("rope.scaling.yarn_log_multiplier", 0.0) * np.log(factor)
    return freq / factor * slow + freq * (1 - slow), mscale**2


def rotate(x: Array, freq: Array) -> Array:
    """x [token, head, d]"""
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * np.exp(1j * np.outer(np.arange(len(x)), freq))[:, None, :]
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def attention(w: Weights, blk: str, x: Array) -> Array:
    """Equations (37) to (47) of V2's appendix C."""
    n, n_head = len(x), w.key("attention.head_count")
    eps, rank = w.key("attention.layer_norm_rms_epsilon"), w.key("attention.kv_lora_rank")
    freq, stretch = yarn(w)
    if f"{blk}.attn_q_a.weight" in w:
        c_q = rms_norm(w.linear(x, f"{blk}.attn_q_a"), w[f"{blk}.attn_q_a_norm.weight"], eps)
        q = w.linear(c_q, f"{blk}.attn_q_b").reshape(n, n_head, -1)
    else:  # V2-Lite
        q = w.linear(x, f"{blk}.attn_q").reshape(n, n_head, -1)
    plain = q.shape[-1] - w.key("rope.dimension_count")
    q = np.concatenate([q[..., :plain], rotate(q[..., plain:], freq)], -1)
    c_kv, k_rope = np.split(w.linear(x, f"{blk}.attn_kv_a_mqa"), [rank], -1)
    c_kv = rms_norm(c_kv, w[f"{blk}.attn_kv_a_norm.weight"], eps)
    k_b, v_b = (w[f"{blk}.attn_{c}_b.weight"] for c in "kv")
    k = np.einsum("tr,hrd->thd", c_kv, k_b.reshape(n_head, rank, plain))
    v = np.einsum("tr,hdr->thd", c_kv, v_b.reshape(n_head, -1, rank))
    k_rope = np.repeat(rotate(k_rope[:, None, :], freq), n_head, 1)  # one for all heads
    score = np.einsum("qhd,khd->hqk", q, np.concatenate([k, k_rope], -1))
    score = np.where(np.tri(n, dtype=bool), score * stretch / np.sqrt(q.shape[-1]), -np.inf)
    out = np.einsum("hqk,khd->qhd", softmax(score), v)
    return w.linear(out.reshape(n, -1), f"{blk}.attn_output")


def chosen(w: Weights, rank_by: Array) -> list[int]:
    """Ids of one token's experts: the best of the best groups (V3, section 2.1.2)."""
    n_group, n_used = w.key("expert_group_count", 1), w.key("expert_used_count")
    if n_group > 1:
        groups = rank_by.reshape(n_group, -1)
        two_best = np.sort(groups, -1)[:, -2:].sum(-1)
        dropped = np.argsort(-two_best)[w.key("expert_group_used_count") :]
        groups = groups.copy()
        groups[dropped] = -np.inf
        rank_by = groups.ravel()
    return list(np.argsort(-rank_by)[:n_used])


def experts(w: Weights, blk: str, x: Array) -> Array:
    logits = w.linear(x, f"{blk}.ffn_gate_inp")
    share = sigmoid(logits) if w.key("expert_gating_func", 1) == SIGMOID else softmax(logits)
    bias = f"{blk}.exp_probs_b.bias"  # it chooses; it does not weigh
    rank_by = share + w[bias] if bias in w else share
    if f"{blk}.ffn_gate_up_exps.weight" in w:
        gate, up = np.split(w[f"{blk}.ffn_gate_up_exps.weight"], 2, 1)
    else:
        gate, up = w[f"{blk}.ffn_gate_exps.weight"], w[f"{blk}.ffn_up_exps.weight"]
    out = ffn(w, blk, x, "_shexp")
    for t, row in enumerate(x):
        best = chosen(w, rank_by[t])
        total = max(share[t, best].sum(), 6.1e-5) if w.key("expert_weights_norm", False) else 1.0
        for e in best:
            y = w[f"{blk}.ffn_down_exps.weight"][e] @ (silu(gate[e] @ row) * (up[e] @ row))
            out[t] += share[t, e] / total * w.key("expert_weights_scale", 1.0) * y
    return out


def ffn(w: Weights, blk: str, x: Array, kind: str = "") -> Array:
    y = silu(w.linear(x, f"{blk}.ffn_gate{kind}")) * w.linear(x, f"{blk}.ffn_up{kind}")
    return w.linear(y, f"{blk}.ffn_down{kind}")


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps = w.key("attention.layer_norm_rms_epsilon")
    x = w["token_embd.weight"][tokens]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + attention(w, blk, rms_norm(x, w[f"{blk}.attn_norm.weight"], eps))
        y = rms_norm(x, w[f"{blk}.ffn_norm.weight"], eps)
        dense = il < w.key("leading_dense_block_count", 0)
        x = x + (ffn(w, blk, y) if dense else experts(w, blk, y))
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
