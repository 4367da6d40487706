"""GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", and its code).

Where the file differs from the paper: matrices are stored [out, in] (the paper's code keeps them
[in, out]); the output matrix may be a copy of the embedding's.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, softmax


def layer_norm(w: Weights, name: str, x: Array) -> Array:
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    y = (x - mean) / np.sqrt(var + w.key("attention.layer_norm_epsilon"))
    return y * w[f"{name}.weight"] + w[f"{name}.bias"]


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def attention(w: Weights, blk: str, x: Array) -> Array:
    n, n_head = len(x), w.key("attention.head_count")
    q, k, v = np.split(w.linear(x, f"{blk}.attn_qkv"), 3, -1)
    q, k, v = (t.reshape(n, n_head, -1).swapaxes(0, 1) for t in (q, k, v))  # [head, token, d]
    score = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
    score = np.where(np.tri(n, dtype=bool), score, -np.inf)
    out = (softmax(score) @ v).swapaxes(0, 1).reshape(n, -1)
    return w.linear(out, f"{blk}.attn_output")


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    x = w["token_embd.weight"][tokens] + w["position_embd.weight"][: len(tokens)]
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + attention(w, blk, layer_norm(w, f"{blk}.attn_norm", x))
        y = gelu(w.linear(layer_norm(w, f"{blk}.ffn_norm", x), f"{blk}.ffn_up"))
        x = x + w.linear(y, f"{blk}.ffn_down")
    return w.unembed(layer_norm(w, "output_norm", x))
