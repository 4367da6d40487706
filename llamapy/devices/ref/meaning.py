"""What every op means: the row's name -> a function of the node and its sources' values.

Arrays have the slowest axis first, [ne3, ne2, ne1, ne0]. The result is stored in the node's type.
`get_rows` and `set_rows` move stored rows, whatever their encoding.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from llamapy.base.types import X8
from llamapy.devices.ref import recur
from llamapy.devices.ref.attention import flash_attn, flash_attn_merge, flash_attn_part
from llamapy.devices.ref.experts import (
    add_id,
    check_ids,
    highest,
    highest_sum,
    mul_mat_id,
    take_ids,
    top_k_ids,
    weighted_sum,
)
from llamapy.devices.ref.interleaved import interleave
from llamapy.devices.ref.memory import Array, decode, x8_rows
from llamapy.devices.ref.rope import rope, rope_apply, rope_table
from llamapy.graph.tensor import Tensor

Unary = Callable[[Array], Array]
Meaning = Callable[..., Array]

_erf: Callable[[Array], Array] = np.frompyfunc(math.erf, 1, 1)


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e)).astype(x.dtype)


def gelu(x: Array) -> Array:
    """The tanh form (Hendrycks and Gimpel 2016)."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x)))


def gelu_erf(x: Array) -> Array:
    return 0.5 * x * (1 + _erf(x / math.sqrt(2)).astype(x.dtype))


UNARY: dict[str, Unary] = {
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "gelu_quick": lambda x: x * sigmoid(1.702 * x),
    "relu": lambda x: np.maximum(x, 0),
    "relu_sqr": lambda x: np.maximum(x, 0) ** 2,
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "neg": np.negative,
    "abs": np.abs,
    "sqr": np.square,
    "sqrt": np.sqrt,
}
_GATE = {
    "swiglu": "silu",
    "geglu": "gelu",
    "geglu_erf": "gelu_erf",
    "geglu_quick": "gelu_quick",
    "reglu": "relu",
}


def repeat_to(b: Array, a: Array) -> Array:
    """`b` repeated along every axis until it has the shape of `a`."""
    return np.tile(b, [n // m if m else 0 for n, m in zip(a.shape, b.shape, strict=True)])


def _binary(act: Callable[[Array, Array], Array]) -> Meaning:
    return lambda node, a, b: act(a, repeat_to(b, a))


def _unary(act: Unary) -> Meaning:
    return lambda node, x: act(x)


def _glu(act: Unary) -> Meaning:
    def meaning(node: Tensor, gate: Array, up: Array | None = None) -> Array:
        if up is None:
            gate, up = np.split(gate, 2, axis=-1)
        return act(gate) * up

    return meaning


def rms_norm(node: Tensor, x: Array, weight: Array | None = None) -> Array:
    y = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + node.params["eps"])
    return y if weight is None else y * repeat_to(weight, y)


def norm(node: Tensor, x: Array, weight: Array | None = None, bias: Array | None = None) -> Array:
    """Ba, Kiros and Hinton 2016."""
    d = x - x.mean(axis=-1, keepdims=True)
    y = d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + node.params["eps"])
    if weight is not None:
        y = y * repeat_to(weight, y)
    return y if bias is None else y + repeat_to(bias, y)


def l2_norm(node: Tensor, x: Array) -> Array:
    length = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    return x / np.maximum(length, node.params["eps"])


def soft_max(node: Tensor, x: Array) -> Array:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def swiglu_oai(node: Tensor, gate: Array, up: Array | None = None) -> Array:
    """The gate of gpt-oss: clamped, and the up half is taken plus one."""
    if up is None:
        gate, up = np.split(gate, 2, axis=-1)
    alpha, limit = node.params["alpha"], node.params["limit"]
    gate = np.minimum(gate, limit)
    return gate * sigmoid(alpha * gate) * (np.clip(up, -limit, limit) + 1)


def xielu(node: Tensor, x: Array) -> Array:
    """Huang and Schlag 2024; the alphas are those behind their softplus, beta added to alpha_n."""
    alpha_n, alpha_p, beta, eps = (node.params[p] for p in ("alpha_n", "alpha_p", "beta", "eps"))
    below = np.expm1(np.minimum(np.minimum(x, 0), eps)) - x
    return np.where(x > 0, alpha_p * x * x, alpha_n * below) + beta * x


def mul_mat(node: Tensor, w: Array, x: Array, addend: Array | None = None) -> Array:
    """w [c3, c2, m, k], x [b3, b2, n, k]: [b3, b2, n, m]. Neighbours among x's share one of w's."""
    for axis in (0, 1):
        w = np.repeat(w, x.shape[axis] // w.shape[axis], axis=axis)
    y = x @ w.swapaxes(-1, -2)
    if node.params.get("pairs"):
        y = y[..., ::2, :] + y[..., 1::2, :]
    return y if addend is None else y + addend


def get_rows(node: Tensor, table: Array, ids: Array) -> Array:
    """table [t3, t2, n_rows, k], ids [1, i2, i1, i0]: [i2, i1, i0, k]. Ids of plane (i2, i1) look
    into that plane of the table, or into the only one it has."""
    check_ids(ids, table.shape[2], node)
    ids = ids[0]
    plane3 = np.arange(ids.shape[0]) % table.shape[0]
    plane2 = np.arange(ids.shape[1]) % table.shape[1]
    return table[plane3[:, None, None], plane2[None, :, None], ids]


def set_rows(node: Tensor, cache: Array, new: Array, ids: Array) -> Array:
    """cache [b3, b2, n_rows, k] with row ids[.., i] replaced by new[b3, b2, i]; ids [1, c2, c1, n]
    repeats over the planes of `new`."""
    check_ids(ids, cache.shape[2], node)
    for i3 in range(new.shape[0]):
        for i2 in range(new.shape[1]):
            at = ids[0, i3 % ids.shape[1], i2 % ids.shape[2]]
            cache[i3, i2, at] = new[i3, i2]
    return cache


def _identity(node: Tensor, x: Array) -> Array:
    return x


def quant_act_pair(node: Tensor, x: Array) -> Array:
    """[1, 1, n, k] -> [1, n, 2, k]: the values, and what rounding them to X8 leaves."""
    rest = x - decode(x8_rows(x), X8, np.float64)
    return np.stack([x[0, 0], rest[0, 0]], axis=1)[None]


def repack(node: Tensor, stored: Array) -> Array:
    """Of bytes."""
    return interleave(stored, node.src[0].type.name)


MEANING: dict[str, Meaning] = {
    "repack": repack,
    "add": _binary(np.add),
    "sub": _binary(np.subtract),
    "mul": _binary(np.multiply),
    "div": _binary(np.divide),
    "scale": lambda node, x: x * node.params["scale"] + node.params["bias"],
    "softcap": lambda node, x: node.params["cap"] * np.tanh(x / node.params["cap"]),
    **{name: _unary(act) for name, act in UNARY.items()},
    **{name: _glu(UNARY[act]) for name, act in _GATE.items()},
    **{f"{name}_quant": _glu(UNARY[act]) for name, act in _GATE.items()},
    "swiglu_oai": swiglu_oai,
    "swiglu_oai_quant": swiglu_oai,
    "xielu": xielu,
    "clamp": lambda node, x: np.clip(x, node.params["min"], node.params["max"]),
    "rms_norm": rms_norm,
    "rms_norm_quant": rms_norm,
    "norm": norm,
    "norm_quant": norm,
    "l2_norm": l2_norm,
    "soft_max": soft_max,
    "sum_rows": lambda node, x: x.sum(axis=-1, keepdims=True),
    "concat": lambda node, a, b: np.concatenate((a, b), axis=3 - node.params["axis"]),
    "highest": highest,
    "highest_sum": highest_sum,
    "top_k_ids": top_k_ids,
    "take_ids": take_ids,
    "mul_mat_id": mul_mat_id,
    "add_id": add_id,
    "weighted_sum": weighted_sum,
    "rope": rope,
    "rope_table": rope_table,
    "rope_apply": rope_apply,
    "cpy": _identity,
    "quant_act": _identity,
    "quant_act_pair": quant_act_pair,
    "get_rows": get_rows,
    "set_rows": set_rows,
    "rope_set_rows": set_rows,
    "mul_mat": mul_mat,
    "flash_attn": flash_attn,
    "flash_attn_quant": flash_attn,
    "flash_attn_part": flash_attn_part,
    "flash_attn_merge": flash_attn_merge,
    "flash_attn_merge_quant": flash_attn_merge,
    **recur.MEANING,
}
