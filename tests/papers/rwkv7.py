"""RWKV-7 "Goose" (arXiv 2503.14456, section 4 and the pseudocode of its appendix).

The state of a head is a matrix [value, key]. With decay w, in-context learning rate a and removal
key kk (of length 1):

    S_t = S_(t-1) (diag(w_t) - kk_t^T (a_t * kk_t)) + v_t^T k_t          y_t = S_t r_t

Where the file differs from the paper:
- The six token-shift weights of the time mix are one tensor [6, 1, 1, width] in the order
  r, w, k, v, a, g.
- Low-rank pairs (w1, w2 and the like) are stored transposed, [out, in], as all matrices are.
- Layer 0 has v0, v1, v2 too, and nobody reads them: it is the layer whose values the others take.
- exp(-0.5), the paper's bound of the decay's exponent, is 0.606531 in the peer.
"""

from __future__ import annotations

import numpy as np
from papers.weights import Array, Weights, sigmoid

GROUP_NORM_EPS = 64e-5


def normalised(x: Array, eps: float) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def layer_norm(w: Weights, name: str, x: Array) -> Array:
    y = normalised(x, w.key("attention.layer_norm_epsilon"))
    return y * w[f"{name}.weight"] + w[f"{name}.bias"]


def before(x: Array) -> Array:
    """Each token's predecessor; zeros before the first."""
    return np.concatenate([np.zeros_like(x[:1]), x[:-1]])


def wkv(r: Array, w: Array, k: Array, v: Array, kk: Array, a: Array) -> Array:
    """All [token, head, d]; the recurrence of the heading, one token after the other."""
    state = np.zeros((r.shape[1], r.shape[2], r.shape[2]))  # [head, value, key]
    out = np.empty_like(r)
    for t in range(len(r)):
        removed = np.einsum("hvk,hk->hv", state, kk[t])
        state = state * w[t][:, None, :] - removed[:, :, None] * (a[t] * kk[t])[:, None, :]
        state = state + v[t][:, :, None] * k[t][:, None, :]
        out[t] = np.einsum("hvk,hk->hv", state, r[t])
    return out


def time_mix(w: Weights, blk: str, x: Array, v_first: Array | None) -> tuple[Array, Array]:
    """What the mixer adds, and the first layer's values."""
    n, size = len(x), w.key("wkv.head_size")

    def at(name: str) -> Array:
        return w[f"{blk}.time_mix_{name}.weight"]

    lerp = at("lerp_fused").reshape(6, 1, -1)
    x_r, x_w, x_k, x_v, x_a, x_g = x + (before(x) - x) * lerp
    r, k, v = x_r @ at("receptance").T, x_k @ at("key").T, x_v @ at("value").T
    decay = np.exp(-np.exp(-0.5) * sigmoid(at("w0") + np.tanh(x_w @ at("w1").T) @ at("w2").T))
    a = sigmoid(at("a0") + x_a @ at("a1").T @ at("a2").T)
    gate = sigmoid(x_g @ at("g1").T) @ at("g2").T
    if v_first is None:
        v_first = v
    else:
        v = v + (v_first - v) * sigmoid(at("v0") + x_v @ at("v1").T @ at("v2").T)
    kk = (k * at("k_k")).reshape(n, -1, size)
    kk = kk / np.sqrt((kk**2).sum(-1, keepdims=True))
    k = k * (1 + (a - 1) * at("k_a"))
    r, decay, k, v_heads, a = (t.reshape(n, -1, size) for t in (r, decay, k, v, a))
    y = normalised(wkv(r, decay, k, v_heads, kk, a), GROUP_NORM_EPS).reshape(n, -1)
    y = y * at("ln") + w[f"{blk}.time_mix_ln.bias"]
    bonus = (r * k * at("r_k").reshape(-1, size)).sum(-1, keepdims=True) * v_heads
    return ((y + bonus.reshape(n, -1)) * gate) @ at("output").T, v_first


def channel_mix(w: Weights, blk: str, x: Array) -> Array:
    x = x + (before(x) - x) * w[f"{blk}.channel_mix_lerp_k.weight"].reshape(-1)
    k = np.maximum(x @ w[f"{blk}.channel_mix_key.weight"].T, 0) ** 2
    return k @ w[f"{blk}.channel_mix_value.weight"].T


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    x = layer_norm(w, "token_embd_norm", w["token_embd.weight"][tokens])
    v_first = None
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        y, v_first = time_mix(w, blk, layer_norm(w, f"{blk}.attn_norm", x), v_first)
        x = x + y
        x = x + channel_mix(w, blk, layer_norm(w, f"{blk}.attn_norm_2", x))
    return w.unembed(layer_norm(w, "output_norm", x))
