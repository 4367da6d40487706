"""RWKV-6 "Finch" (arXiv 2404.05892, section 4).

The state of a head is a matrix [value, key]. With decay w and the bonus u of the present token:

    y_t = (S_(t-1) + v_t (u * k_t)^T) r_t          S_t = S_(t-1) diag(w_t) + v_t k_t^T

Where the file differs from the paper:
- The data-dependent shares of the five inputs are made by one matrix `w1` [5 * rank, width] and
  five `w2` [5, width, rank], in the order w, k, v, r, g; their starts are one tensor or five.
- Matrices that write to the residual are stored halved once for every so many layers before them,
  and the residual is halved there, so that float16 would do.
"""

from __future__ import annotations

import numpy as np
from papers.rwkv7 import before, layer_norm, normalised
from papers.weights import Array, Weights, sigmoid, silu

GROUP_NORM_EPS = 64e-5


def inputs(w: Weights, blk: str, x: Array) -> list[Array]:
    """A mixture of each token and the one before it, for each of w, k, v, r and g."""
    step = before(x) - x
    at = x + step * w[f"{blk}.time_mix_lerp_x.weight"].reshape(-1)
    h = np.tanh(at @ w[f"{blk}.time_mix_w1.weight"].T).reshape(len(x), 5, -1)
    if f"{blk}.time_mix_lerp_fused.weight" in w:
        starts = w[f"{blk}.time_mix_lerp_fused.weight"].reshape(5, -1)
    else:
        starts = [w[f"{blk}.time_mix_lerp_{c}.weight"].reshape(-1) for c in "wkvrg"]
    w2 = w[f"{blk}.time_mix_w2.weight"]
    return [x + step * (starts[i] + h[:, i] @ w2[i].T) for i in range(5)]


def time_mix(w: Weights, blk: str, x: Array) -> Array:
    n, size = len(x), w.key("wkv.head_size")

    def at(name: str) -> Array:
        return w[f"{blk}.time_mix_{name}.weight"]

    x_w, x_k, x_v, x_r, x_g = inputs(w, blk, x)
    d = at("decay").reshape(-1) + np.tanh(x_w @ at("decay_w1").T) @ at("decay_w2").T
    decay, k, v, r = (
        t.reshape(n, -1, size)
        for t in (np.exp(-np.exp(d)), x_k @ at("key").T, x_v @ at("value").T,
                  x_r @ at("receptance").T)
    )  # fmt: skip
    state, y = np.zeros((v.shape[1], size, size)), np.empty_like(v)
    for t in range(n):
        present = v[t][:, :, None] * (at("first") * k[t])[:, None, :]
        y[t] = np.einsum("hvk,hk->hv", state + present, r[t])
        state = state * decay[t][:, None, :] + v[t][:, :, None] * k[t][:, None, :]
    y = normalised(y, GROUP_NORM_EPS).reshape(n, -1) * at("ln") + w[f"{blk}.time_mix_ln.bias"]
    return (y * silu(x_g @ at("gate").T)) @ at("output").T


def channel_mix(w: Weights, blk: str, x: Array) -> Array:
    step = before(x) - x
    x_k, x_r = (x + step * w[f"{blk}.channel_mix_lerp_{c}.weight"].reshape(-1) for c in "kr")
    k = np.maximum(x_k @ w[f"{blk}.channel_mix_key.weight"].T, 0) ** 2
    gate = sigmoid(x_r @ w[f"{blk}.channel_mix_receptance.weight"].T)
    return gate * (k @ w[f"{blk}.channel_mix_value.weight"].T)


def forward(w: Weights, tokens: list[int]) -> Array:
    """Logits [n_tokens, n_vocab]."""
    x = layer_norm(w, "token_embd_norm", w["token_embd.weight"][tokens])
    halve = w.key("rescale_every_n_layers", 0)
    for il in range(w.key("block_count")):
        blk = f"blk.{il}"
        x = x + time_mix(w, blk, layer_norm(w, f"{blk}.attn_norm", x))
        x = x + channel_mix(w, blk, layer_norm(w, f"{blk}.attn_norm_2", x))
        if halve and (il + 1) % halve == 0:
            x = x / 2
    return w.unembed(layer_norm(w, "output_norm", x))
