"""Nemotron 3 (NVIDIA, 2025): each layer is a norm and one of Mamba-2, attention without positions,
or experts, x + f(norm(x)).

Experts (LatentMoE): scores are sigmoids; those with the highest score plus bias are chosen, and
weigh by their scores alone, normalised and scaled. They work between two matrices that lead into a
smaller space and back; the shared one reads x itself. Each is W2 max(W1 x, 0)^2.
"""

from __future__ import annotations

import numpy as np
from papers.jamba import attention
from papers.mamba2 import mixer
from papers.weights import Array, Weights, rms_norm, sigmoid


def relu_squared(x: Array, up: Array, down: Array) -> Array:
    return np.maximum(x @ up.T, 0) ** 2 @ down.T


def experts(w: Weights, blk: str, x: Array) -> Array:
    score = sigmoid(w.linear(x, f"{blk}.ffn_gate_inp"))
    order = np.argsort(-(score + w[f"{blk}.exp_probs_b.bias"]), axis=1)
    small = w.linear(x, f"{blk}.ffn_latent_down")
    up, down = w[f"{blk}.ffn_up_exps.weight"], w[f"{blk}.ffn_down_exps.weight"]
    out = np.zeros_like(small)
    for t, chosen in enumerate(order[:, : w.key("expert_used_count")]):
        weight = score[t, chosen] / score[t, chosen].sum() * w.key("expert_weights_scale")
        for e, share in zip(chosen, weight, strict=True):
            out[t] += share * relu_squared(small[t], up[e], down[e])
    shared = (w[f"{blk}.ffn_{name}_shexp.weight"] for name in ("up", "down"))
    return w.linear(out, f"{blk}.ffn_latent_up") + relu_squared(x, *shared)


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    eps, n_head = w.key("attention.layer_norm_rms_epsilon"), w.key("attention.head_count")
    heads_kv, n_ff = w.key("attention.head_count_kv"), w.key("feed_forward_length")
    x = w["token_embd.weight"][tokens]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        y = rms_norm(x, w[f"{blk}.attn_norm.weight"], eps)
        if n_ff[il]:
            x = x + experts(w, blk, y)
        elif heads_kv[il]:
            x = x + attention(w, blk, y, n_head, heads_kv[il])
        else:
            x = x + mixer(w, blk, y)
    return w.unembed(rms_norm(x, w["output_norm.weight"], eps))
