"""An op is one row: shape rule, sources, parameters, in-place permission, view flag.

The allocator, the verifier, the dump, the numpy meaning and the lowering to native kernels all read
these rows; there is no second list. `make` builds a tensor from a row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llamapy.base.types import BY_NAME, F32, I32, X8, Type, interleaved
from llamapy.graph import experts, recur
from llamapy.graph.tensor import Shape, Tensor

Params = dict[str, Any]
Result = tuple[Type, Shape]
Rule = Callable[[tuple[Tensor, ...], Params], Result]


@dataclass(frozen=True, slots=True)
class Op:
    """`params` are (name, kind) in the order in which lowering writes them: ints to `ip`, floats to
    `fp`. A kind of `int*N` is a list of N ints; a `switch` (False when absent)
    goes to `ip`; a `flag` (so too) and a `str` are for
    whoever prepares the graph. `in_place` lists the sources whose bytes the result
    may take over: the kernel reads an element of them before it writes the same element."""

    name: str
    n_src: tuple[int, int]
    rule: Rule
    params: tuple[tuple[str, str], ...] = ()
    in_place: tuple[int, ...] = ()
    view: bool = False
    writes_src: bool = False  # the result is a view of source 0, which the op writes (set_rows)
    also_writes: tuple[int, ...] = ()  # sources written besides the result: states, no node's value


def same(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return srcs[0].type, srcs[0].ne


def broadcast(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """Source 1 is repeated along every axis in which source 0 is a multiple of it."""
    a, b = srcs
    if any(a.ne[i] % b.ne[i] if b.ne[i] else a.ne[i] for i in range(4)):
        raise ValueError(f"cannot repeat {list(b.ne)} to {list(a.ne)}")
    return a.type, a.ne


def _glu(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """Two sources of one shape, or one whose rows hold gate then up."""
    a = srcs[0]
    if len(srcs) == 2:
        if srcs[1].ne != a.ne:
            raise ValueError(f"gate {list(a.ne)} and up {list(srcs[1].ne)} differ")
        return a.type, a.ne
    if a.ne[0] % 2:
        raise ValueError(f"cannot halve a row of {a.ne[0]}")
    return a.type, (a.ne[0] // 2, *a.ne[1:])


def _mul_mat(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """Weight [k, m, c2, c3] by x [k, n, b2, b3]: [m, n, b2, b3]. An addend (bias [m] or residual of
    the result's shape) is added after the dot product is rounded, as `add` would. `pairs`: columns
    2i and 2i + 1 are added up in the same way, to [m, n / 2, b2, b3]."""
    w, x = srcs[0], srcs[1]
    if w.ne[0] != x.ne[0] or x.ne[2] % w.ne[2] or x.ne[3] % w.ne[3]:
        raise ValueError(f"cannot multiply {w.name} {list(w.ne)} by {x.name} {list(x.ne)}")
    out: Shape = (w.ne[1], *x.ne[1:])
    if p.get("pairs"):
        if len(srcs) == 3 or x.ne[1] % 2:
            raise ValueError(f"no pairs of columns: {x.ne[1]}, or an addend besides")
        out = (w.ne[1], x.ne[1] // 2, *x.ne[2:])
    if len(srcs) == 3 and any(srcs[2].ne[i] not in (out[i], 1) for i in range(4)):
        raise ValueError(f"cannot add {list(srcs[2].ne)} to {list(out)}")
    return F32, out


def _get_rows(srcs: tuple[Tensor, ...], p: Params) -> Result:
    table, ids = srcs
    return F32, (table.ne[0], ids.ne[0], ids.ne[1], ids.ne[2])


def _attention(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """q [n_embd_head_k, n_head, n_tokens], v [n_embd_head_v, n_head_kv, n_cells]. A bias [n_head,
    2 reach + 1] is told from sinks [n_head] by having columns."""
    q, v = srcs[0], srcs[2]
    return F32, (v.ne[0] * q.ne[1], q.ne[2], 1, 1)


def _attention_x8(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return X8, _attention(srcs, p)[1]


def _to_type(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return BY_NAME[p["type"]], srcs[0].ne


def _x8(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return X8, srcs[0].ne


def _repack(srcs: tuple[Tensor, ...], p: Params) -> Result:
    type_, ne = srcs[0].type, srcs[0].ne
    twin = interleaved(type_)
    if twin is None or ne[1] % 8:
        raise ValueError(f"rows of {srcs[0]!r} cannot be interleaved by eight")
    return twin, ne


def _glu_x8(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return X8, _glu(srcs, p)[1]


def _x8_pair(srcs: tuple[Tensor, ...], p: Params) -> Result:
    x = srcs[0]
    if x.ne[2] * x.ne[3] != 1:
        raise ValueError(f"quant_act_pair takes rows [k, n], got {list(x.ne)}")
    return X8, (x.ne[0], 2, x.ne[1], 1)


def _sum_rows(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return F32, (1, *srcs[0].ne[1:])


def _concat(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """Alike but along `axis`."""
    a, b = srcs
    axis: int = p["axis"]
    if not 0 <= axis < 4 or any(a.ne[i] != b.ne[i] for i in range(4) if i != axis):
        raise ValueError(f"cannot join {list(a.ne)} and {list(b.ne)} along axis {axis}")
    ne = list(a.ne)
    ne[axis] += b.ne[axis]
    return F32, (ne[0], ne[1], ne[2], ne[3])


def _highest_sum(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """main [m, n], weight [k, m], x [k, n], length [m], [never]: as `highest` says of the sum of
    main and the product, i32 [n]. `length`: what the lengths of the weight's rows are at most,
    `longest`: that of all of them."""
    main, w, x, length = srcs[:4]
    if w.ne[0] != x.ne[0] or main.ne != (w.ne[1], x.ne[1], 1, 1) or length.ne[0] != w.ne[1]:
        raise ValueError(f"no sum of {list(main.ne)} and {list(w.ne)} by {list(x.ne)}")
    return I32, (x.ne[1], 1, 1, 1)


def _highest(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """Rows [n, n_rows]: of each the place of its highest element, i32 [n_rows]. The places that a
    second source names, i32 [n_never], are not taken."""
    if srcs[0].ne[2] * srcs[0].ne[3] != 1:
        raise ValueError(f"highest takes one table of rows, not {list(srcs[0].ne)}")
    return I32, (srcs[0].ne[1], 1, 1, 1)


def _from_params(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return srcs[0].type, p["ne"]


def _attention_parts(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """Per query, head and tile of 64 positions: the unnormalised row, its maximum and its sum."""
    q, v, idx = srcs[0], srcs[2], srcs[3]
    return F32, (v.ne[0] + 2, idx.ne[0] // 64, q.ne[1], q.ne[2])


def _attention_merge(srcs: tuple[Tensor, ...], p: Params) -> Result:
    parts = srcs[0]
    return F32, ((parts.ne[0] - 2) * parts.ne[2], parts.ne[3], 1, 1)


def _attention_merge_x8(srcs: tuple[Tensor, ...], p: Params) -> Result:
    return X8, _attention_merge(srcs, p)[1]


def _rope_table(srcs: tuple[Tensor, ...], p: Params) -> Result:
    """pos [n_tokens], or four planes of it where the mode has sections: a row for each token, cos
    then sin of its pairs; twice that where pairs are neighbours (mode 0), a value for each lane."""
    n_pairs = p["n_dims"] if p["mode"] == 24 else p["n_dims"] // 2
    n_tokens = srcs[0].ne[0] // (4 if p["mode"] >= 8 else 1)
    return F32, ((2 if p["mode"] else 4) * n_pairs, n_tokens, 1, 1)


_ROPE = (
    ("n_dims", "int"),
    ("mode", "int"),
    ("n_ctx_orig", "int"),
    ("sections", "int*4"),
    ("freq_base", "float"),
    ("freq_scale", "float"),
    ("ext_factor", "float"),
    ("attn_factor", "float"),
    ("beta_fast", "float"),
    ("beta_slow", "float"),
)
_ATTENTION = (("scale", "float"), ("max_bias", "float"), ("softcap", "float"))
_DELTA = (("tiled", "int"), ("scale", "float"))
UNARY = (
    "silu", "gelu", "gelu_erf", "gelu_quick", "relu", "relu_sqr", "sigmoid", "tanh", "exp",
    "log", "softplus", "neg", "abs", "sqr", "sqrt",
)  # fmt: skip
GLU = ("swiglu", "geglu", "geglu_erf", "geglu_quick", "reglu")
_TOP_K = (("k", "int"), ("n_group", "int"), ("n_group_used", "int"))
_XIELU = (("alpha_n", "float"), ("alpha_p", "float"), ("beta", "float"), ("eps", "float"))
_SWIGLU_OAI = (("alpha", "float"), ("limit", "float"))

ROWS: tuple[Op, ...] = (
    # Views: no kernel, no memory. `ne` (and `nb`, `offs`) are given by the builder.
    Op("reshape", (1, 1), _from_params, view=True),
    Op("view", (1, 1), _from_params, view=True),
    Op("permute", (1, 1), _from_params, view=True),
    Op("transpose", (1, 1), _from_params, view=True),
    # Element by element.
    Op("add", (2, 2), broadcast, in_place=(0, 1)),
    Op("sub", (2, 2), broadcast, in_place=(0, 1)),
    Op("mul", (2, 2), broadcast, in_place=(0, 1)),
    Op("div", (2, 2), broadcast, in_place=(0, 1)),
    Op("scale", (1, 1), same, (("scale", "float"), ("bias", "float")), in_place=(0,)),
    Op("softcap", (1, 1), same, (("cap", "float"),), in_place=(0,)),
    *(Op(name, (1, 1), same, in_place=(0,)) for name in UNARY),
    *(Op(name, (1, 2), _glu, in_place=(0, 1)) for name in GLU),
    # g = min(gate, limit), u = clamp(up, -limit, limit): g * sigmoid(alpha * g) * (u + 1)
    Op("swiglu_oai", (1, 2), _glu, _SWIGLU_OAI, in_place=(0, 1)),
    # x > 0: alpha_p x^2 + beta x, else (e^min(x, eps) - 1 - x) alpha_n + beta x
    Op("xielu", (1, 1), same, _XIELU, in_place=(0,)),
    Op("clamp", (1, 1), same, (("min", "float"), ("max", "float")), in_place=(0,)),
    # Rows. The weight of a norm is optional, and the bias behind it.
    Op("rms_norm", (1, 2), same, (("eps", "float"),), in_place=(0,)),
    Op("norm", (1, 3), same, (("eps", "float"),), in_place=(0,)),
    Op("l2_norm", (1, 1), same, (("eps", "float"),), in_place=(0,)),
    Op("soft_max", (1, 1), same, in_place=(0,)),
    Op("sum_rows", (1, 1), _sum_rows),
    Op("concat", (2, 2), _concat, (("axis", "int"),)),
    Op("rope", (2, 3), same, _ROPE, in_place=(0,)),  # x, pos, [freq_factors]
    Op("rope_table", (1, 2), _rope_table, _ROPE),  # pos, [freq_factors]
    Op("rope_apply", (2, 2), same, (("mode", "int"),), in_place=(0,)),  # x, table
    Op("cpy", (1, 1), _to_type, (("type", "str"),)),  # contiguous copy in another type
    Op("get_rows", (2, 2), _get_rows),  # table, ids i32
    Op("set_rows", (3, 3), same, writes_src=True),  # cache, rows f32, ids i32
    # cache [n, n_cells, n_head], x [n, n_head, n_tokens], ids, table: rope_apply, then set_rows
    Op("rope_set_rows", (4, 4), same, (("mode", "int"),), writes_src=True),
    # weight, x, [addend]. `precise`: the activation is not rounded to 8 bits.
    Op("mul_mat", (2, 3), _mul_mat, (("precise", "flag"), ("pairs", "switch")), in_place=(2,)),
    # Of each row where its highest element is, of equal ones the first; -1: one is NaN or +inf, or
    # none above -inf. rows, [never]
    Op("highest", (1, 2), _highest),
    # Mixture of experts: who computes a token, what each says, and the sum of that.
    Op(
        "top_k_ids",
        (1, 1),
        experts.top_k_ids,
        (("k", "int"), ("n_group", "int"), ("n_group_used", "int")),
    ),
    Op("take_ids", (2, 2), experts.take_ids),  # values [n_expert, n_tokens], ids
    Op("mul_mat_id", (3, 3), experts.mul_mat_id),  # weights, x, ids
    Op("add_id", (3, 3), experts.add_id, in_place=(0,)),  # x, bias [m, n_expert], ids
    Op("weighted_sum", (1, 2), experts.weighted_sum),  # x, [weights]
    # q, k, v, idx, range, [bias], [sinks]: see ARCHITECTURE.md, "Attention without masks"
    Op("flash_attn", (5, 7), _attention, _ATTENTION),
    # State, then operands, runs last: recur.py.
    # state, x, weight
    Op("ssm_conv", (4, 4), recur.ssm_conv, (("dilation", "int"),), also_writes=(0,)),
    Op("ssm_scan", (7, 7), recur.ssm_scan, also_writes=(0,)),  # state, x, dt, A, B, C
    # state, q, k, v, g, beta. Head h of v reads head h // r of q and k, or, `tiled`, h % n_head_k.
    Op("gated_delta_net", (7, 7), recur.gated_delta_net, _DELTA, also_writes=(0,)),
    Op("token_shift", (3, 3), recur.token_shift, also_writes=(0,)),  # state, x
    # state, q, k, v, decay
    Op(
        "gated_linear_attn",
        (6, 6),
        recur.gated_linear_attn,
        (("scale", "float"),),
        also_writes=(0,),
    ),
    Op("rwkv_wkv6", (7, 7), recur.rwkv_wkv6, also_writes=(0,)),  # state, r, k, v, w, u
    Op("rwkv_wkv7", (8, 8), recur.rwkv_wkv7, also_writes=(0,)),  # state, r, w, k, v, a, b
    # What the CPU device makes of the above when it prepares a split.
    Op("quant_act", (1, 1), _x8),
    Op("quant_act_pair", (1, 1), _x8_pair),  # an activation, and what quantising it left
    Op("rms_norm_quant", (2, 2), _x8, (("eps", "float"),)),  # rms_norm with weight, then quant_act
    Op("norm_quant", (2, 3), _x8, (("eps", "float"),)),
    *(Op(f"{name}_quant", (1, 2), _glu_x8) for name in GLU),
    Op("swiglu_oai_quant", (1, 2), _glu_x8, _SWIGLU_OAI),
    # main, weight, x, length, [never]
    Op("highest_sum", (4, 5), _highest_sum, (("longest", "float"),)),
    Op("flash_attn_quant", (5, 7), _attention_x8, _ATTENTION),
    # A weight with its rows interleaved by eight, as it is loaded for mul_mat.
    Op("repack", (1, 1), _repack),
    Op("flash_attn_part", (5, 6), _attention_parts, _ATTENTION),
    Op("flash_attn_merge", (1, 2), _attention_merge),  # parts, [sinks]
    Op("flash_attn_merge_quant", (1, 2), _attention_merge_x8),
)

OPS: dict[str, Op] = {op.name: op for op in ROWS}


def make(name: str, *srcs: Tensor, **params: Any) -> Tensor:
    """A tensor of op `name`. Raises ValueError when the shapes do not fit; that is our own bug or a
    model file with wrong shapes, which the loader has refused before."""
    op = OPS[name]
    if not op.n_src[0] <= len(srcs) <= op.n_src[1]:
        raise ValueError(f"{name} takes {op.n_src[0]} to {op.n_src[1]} sources, got {len(srcs)}")
    for param, kind in op.params:
        if kind in ("flag", "switch"):
            params.setdefault(param, False)
    type_, ne = op.rule(srcs, params)
    if op.writes_src:
        return Tensor(
            type_, ne, op=name, src=srcs, params=params, nb=srcs[0].nb, view_src=srcs[0].root,
            view_offs=srcs[0].view_offs,
        )  # fmt: skip
    return Tensor(type_, ne, op=name, src=srcs, params=params)


def _pad(ne: tuple[int, ...]) -> Shape:
    a, b, c, d = (*ne, 1, 1, 1, 1)[:4]
    return (a, b, c, d)


def reshape(x: Tensor, *ne: int) -> Tensor:
    """The same bytes under another shape; `x` is contiguous."""
    shape = _pad(ne)
    if not x.is_contiguous or shape[0] * shape[1] * shape[2] * shape[3] != x.n_elements:
        raise ValueError(f"cannot reshape {x!r} to {list(shape)}")
    return Tensor(
        x.type, shape, op="reshape", src=(x,), params={"ne": shape}, view_src=x.root,
        view_offs=x.view_offs,
    )  # fmt: skip


def view(x: Tensor, ne: tuple[int, ...], nb: tuple[int, ...], offs: int = 0) -> Tensor:
    """A range of `x`: axes `ne`, byte strides `nb` for axes 1.. (missing ones leave no gap), `offs`
    bytes from x's first element."""
    shape = _pad(ne)
    strides = [x.nb[0], *nb]
    if len(strides) == 1:
        strides.append(x.type.row_bytes(shape[0]))
    while len(strides) < 4:
        strides.append(strides[-1] * shape[len(strides) - 1])
    nb4: Shape = (strides[0], strides[1], strides[2], strides[3])
    return Tensor(
        x.type, shape, op="view", src=(x,), params={"ne": shape}, nb=nb4, view_src=x.root,
        view_offs=x.view_offs + offs,
    )  # fmt: skip


def permute(x: Tensor, *axes: int) -> Tensor:
    """`axes[i]` says where axis i goes."""
    ne, nb = [1] * 4, [0] * 4
    for i, to in enumerate(axes):
        ne[to], nb[to] = x.ne[i], x.nb[i]
    shape: Shape = (ne[0], ne[1], ne[2], ne[3])
    strides: Shape = (nb[0], nb[1], nb[2], nb[3])
    return Tensor(
        x.type, shape, op="permute", src=(x,), params={"ne": shape}, nb=strides, view_src=x.root,
        view_offs=x.view_offs,
    )  # fmt: skip


def transpose(x: Tensor) -> Tensor:
    out = permute(x, 1, 0, 2, 3)
    out.op = "transpose"
    return out
