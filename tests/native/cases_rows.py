"""Operands for the row families: odd lengths, gaps between rows, repeated operands, in-place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Case, Operand, operand, packed, params, result

from llamapy.base.types import BY_NAME
from llamapy.ffi.lib import KernelRow
from llamapy.graph.ops import GLU, UNARY

Rng = np.random.Generator
Generator = Callable[[Rng, KernelRow], list[Case]]

# numpy order: the last axis is axis 0.
SHAPES = ((1,), (3, 5), (2, 16), (3, 33), (1, 70), (5, 576), (2, 3, 2, 67), (2, 8200))


def gaps(rng: Rng, *shape: int, scale: float = 2.0, dtype: type = np.float32) -> np.ndarray:
    """Random values whose rows, and planes, have gaps between them."""
    if len(shape) == 1:
        return (rng.standard_normal(shape) * scale).astype(dtype)
    wide = (*shape[:-2], shape[-2] + 1, shape[-1] + 3)
    whole = (rng.standard_normal(wide) * scale).astype(dtype)
    return whole[..., : shape[-2], : shape[-1]]


def plain(rng: Rng, *shape: int, scale: float = 2.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def special() -> np.ndarray:
    """Zeros, subnormals, infinities and the edges of exp; no NaN, whose bits are not promised."""
    v = [
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1e-38,
        -1e-39,
        3.4e38,
        -3.4e38,
        88.7,
        88.8,
        -87.4,
        -103.9,
        -104.1,
    ]
    return np.array([v + [0.55, -0.55, 1.0, 4.0, -4.0, 5e4, -5e4]], np.float32)


def same_as(o: Operand) -> Operand:
    """dst in the memory of source o (in-place)."""
    return Operand(o.type, o.ne, o.nb, o.data, o.offs, o.align)


def one_value(fp: tuple[float, ...] = (), positive: bool = False) -> Generator:
    def sign(x: np.ndarray) -> np.ndarray:
        """What the op is defined for. Gaps between rows may hold anything."""
        if positive:
            np.abs(x, out=x)
        return x

    def make(rng: Rng, row: KernelRow) -> list[Case]:
        cases = []
        for shape in SHAPES:
            x = operand(sign(gaps(rng, *shape)), align=4)
            cases.append(Case([x], result("f32", x.ne), fp=fp, name=str(shape)))
        edges = operand(sign(special()))
        cases.append(Case([edges], result("f32", (20, 1)), fp=fp, name="special"))
        x = operand(sign(gaps(rng, 3, 41)))
        cases.append(Case([x], same_as(x), fp=fp, alias=0, name="in-place"))
        return cases

    return make


def two_values(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for shape in SHAPES:
        x, n = operand(gaps(rng, *shape)), shape[-1]
        repeated = [shape, (1,), (n,), (*shape[:-1], 1)]
        if n % 5 == 0:
            repeated.append((5,))
        for other in repeated:
            y = operand(gaps(rng, *other))
            cases.append(Case([x, y], result("f32", x.ne), name=f"{shape} {other}"))
    x, y = operand(plain(rng, 6, 41)), operand(plain(rng, 6, 41))
    cases.append(Case([x, y], same_as(x), alias=0, name="in-place 0"))
    cases.append(Case([x, y], same_as(y), alias=1, name="in-place 1"))
    z = operand(plain(rng, 2, 41))
    cases.append(Case([x, z], result("f32", x.ne), name="rows repeat"))
    return cases


def gated(out: str, fp: tuple[float, ...] = ()) -> Generator:
    def make(rng: Rng, row: KernelRow) -> list[Case]:
        cases = []
        lengths = (32, 96, 640, 8224) if out == "x8" else (1, 15, 67, 576, 8200)
        for n in lengths:
            for rows in (1, 3):
                gate, up = operand(gaps(rng, rows, n)), operand(gaps(rng, rows, n))
                dst = result(out, (n, rows))
                cases.append(Case([gate, up], dst, fp=fp, name=f"{rows}x{n}"))
                both = operand(gaps(rng, rows, 2 * n))
                cases.append(Case([both], dst, fp=fp, name=f"{rows}x{n} halves"))
        gate, up = operand(plain(rng, 3, 64)), operand(plain(rng, 3, 64))
        if out == "f32":
            cases.append(Case([gate, up], same_as(up), fp=fp, alias=1, name="in-place 1"))
        return cases

    return make


def whole_rows(rng: Rng, row: KernelRow) -> list[Case]:
    """Ops of a row without parameters, or with an eps."""
    cases = []
    for shape in SHAPES:
        x = operand(gaps(rng, *shape))
        ne = (1, *x.ne[1:]) if row.family == "sum_rows" else x.ne
        cases.append(Case([x], result("f32", ne), fp=(1e-6,), name=str(shape)))
    if row.family == "sum_rows":
        return cases
    x = operand(np.array([[-np.inf, 0, -3e38, 3e38] * 9, [-1e30] * 36, [0] * 36], np.float32))
    if row.family == "soft_max":
        cases.append(Case([x], result("f32", x.ne), name="edges"))
    x = operand(gaps(rng, 3, 40))
    cases.append(Case([x], same_as(x), fp=(1e-6,), alias=0, name="in-place"))
    return cases


def norm(out: str) -> Generator:
    def make(rng: Rng, row: KernelRow) -> list[Case]:
        cases = []
        lengths = (32, 96, 576, 2048) if out == "x8" else (1, 7, 16, 37, 70, 576, 2048)
        for n in lengths:
            for shape in ((1, n), (5, n), (2, 3, n)):
                x, w = operand(gaps(rng, *shape)), operand(plain(rng, n))
                if row.family.startswith("norm"):
                    srcs = [x, w, operand(plain(rng, n))]
                    cases.append(Case(srcs, result(out, x.ne), fp=(1e-5,), name=f"{shape} bias"))
                cases.append(Case([x, w], result(out, x.ne), fp=(1e-5,), name=f"{shape} weight"))
                if out == "f32":
                    cases.append(Case([x], result(out, x.ne), fp=(1e-6,), name=f"{shape}"))
        if out == "f32":
            x = operand(gaps(rng, 3, 40))
            cases.append(Case([x], same_as(x), fp=(1e-6,), alias=0, name="in-place"))
        return cases

    return make


def quant_act_pair(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for shape in ((1, 32), (3, 64), (2, 576), (1, 8224)):
        x = gaps(rng, *shape, scale=10.0 ** float(rng.integers(-6, 6)))
        out = result("x8", (shape[1], 2, shape[0]))
        cases.append(Case([operand(x)], out, name=str(shape)))
    return cases


def quant_act(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for shape in ((1, 32), (3, 64), (2, 576), (2, 3, 96), (1, 8224)):
        x = gaps(rng, *shape, scale=10.0 ** float(rng.integers(-6, 6)))
        cases.append(Case([operand(x)], result("x8", x.shape[::-1]), name=str(shape)))
    edge = np.zeros((6, 32), np.float32)
    edge[1, :] = 1e-42
    edge[2, 3] = np.inf
    edge[3, :] = np.linspace(-127, 127, 32)  # halves
    edge[4, :] = np.arange(32) - 15.5
    edge[5, 7] = 1e-38
    cases.append(Case([operand(edge)], result("x8", (32, 6)), name="edges"))
    return cases


def cpy(rng: Rng, row: KernelRow) -> list[Case]:
    if BY_NAME[row.wtype].quantised:
        return cpy_blocks(rng, row.wtype)
    dtype = np.float16 if row.xtype == "f16" else np.float32
    cases = []
    for shape in SHAPES:
        x = gaps(rng, *shape, scale=1e-3, dtype=dtype)
        cases.append(Case([operand(x, 2)], result(row.wtype, x.shape[::-1]), name=str(shape)))
    x = gaps(rng, 3, 19, 35, dtype=dtype)
    for axes in ((0, 2, 1), (2, 1, 0), (1, 0, 2)):
        y = x.transpose(axes)
        cases.append(Case([operand(y)], result(row.wtype, y.shape[::-1]), name=f"permuted {axes}"))
    if dtype == np.float32:
        v = np.array([[65519, 65520, -7e4, 2.0**-24, 2.0**-25, 1.5 * 2.0**-24, 6.1e-5, 6.09e-5]])
        edge = np.concatenate([v, np.array([[np.inf, 0, -0.0, 1e-30, 2049, 2051, 1e9, -1.0]])], 1)
        edge = edge.astype(np.float32)
        cases.append(Case([operand(edge)], result(row.wtype, (16, 1)), name="edges"))
    return cases


def blocks_edge() -> np.ndarray:
    """Rows of 32: zeros, subnormals, halves, one sign, what is not finite."""
    x = np.zeros((9, 32), np.float32)
    x[1] = 1e-42
    x[2] = np.linspace(-127, 127, 32)
    x[3] = np.arange(32) - 15.5
    x[4], x[4, 3] = -0.5, -8.0
    x[5, 7], x[6, 3], x[7] = 1e-38, np.inf, np.nan
    x[8] = np.arange(32) * 3e38 / 31 - 1e38
    return x


def cpy_blocks(rng: Rng, name: str) -> list[Case]:
    cases = []
    for shape in ((1, 32), (3, 96), (2, 3, 2, 64), (1, 8224)):
        x = gaps(rng, *shape, scale=10.0 ** float(rng.integers(-5, 4)))
        cases.append(Case([operand(x)], result(name, x.shape[::-1]), name=str(shape)))
    turned = gaps(rng, 3, 64, 35).transpose(0, 2, 1)
    cases.append(Case([operand(turned)], result(name, turned.shape[::-1]), name="permuted"))
    cases.append(Case([operand(blocks_edge())], result(name, (32, 9)), name="edges"))
    return cases


def set_blocks(rng: Rng, name: str) -> list[Case]:
    cases = []
    for n, width in ((1, 32), (3, 96), (7, 576), (2, 8224)):
        fill = rng.integers(0, 256, BY_NAME[name].row_bytes(width) * 19, dtype=np.uint8)
        cache = packed(fill, name, (width, 19))
        ids = operand(rng.permutation(19)[:n].astype(np.int32), 4)
        srcs = [cache, operand(gaps(rng, n, width)), ids]
        cases.append(Case(srcs, same_as(cache), alias=0, name=f"{n}x{width}"))
    fill = rng.integers(0, 256, BY_NAME[name].row_bytes(64) * 18, dtype=np.uint8)
    cache = packed(fill, name, (64, 9, 2))
    ids = operand(np.stack([rng.permutation(9)[:4], rng.permutation(9)[:4]]).astype(np.int32))
    srcs = [cache, operand(gaps(rng, 2, 4, 64)), ids]
    cases.append(Case(srcs, same_as(cache), alias=0, name="planes"))
    return cases


def set_rows(rng: Rng, row: KernelRow) -> list[Case]:
    if row.wtype not in ("f32", "f16"):
        return set_blocks(rng, row.wtype)
    dtype = np.float16 if row.wtype == "f16" else np.float32
    cases = []
    for n, width in ((1, 1), (3, 40), (7, 576), (2, 8200)):
        cache = operand(gaps(rng, 19, width, dtype=dtype))
        ids = operand(rng.permutation(19)[:n].astype(np.int32), 4)
        srcs = [cache, operand(gaps(rng, n, width)), ids]
        cases.append(Case(srcs, same_as(cache), alias=0, name=f"{n}x{width}"))
    cache = operand(gaps(rng, 2, 9, 24, dtype=dtype))
    ids = operand(np.stack([rng.permutation(9)[:4], rng.permutation(9)[:4]]).astype(np.int32))
    srcs = [cache, operand(gaps(rng, 2, 4, 24)), ids]
    cases.append(Case(srcs, same_as(cache), alias=0, name="planes"))
    return cases


def rope_params(n_dims: int, mode: int, **given: object) -> tuple[list[int], list[float]]:
    known: dict[str, object] = {
        "n_dims": n_dims, "mode": mode, "n_ctx_orig": 4096, "sections": (0, 0, 0, 0),
        "freq_base": 10000.0, "freq_scale": 1.0, "ext_factor": 0.0, "attn_factor": 1.0,
        "beta_fast": 32.0, "beta_slow": 1.0,
    }  # fmt: skip
    return params("rope", **(known | given))


def rope(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for width, n_dims, heads, tokens in (
        (64, 64, 3, 5),
        (80, 64, 1, 1),
        (36, 20, 2, 3),
        (256, 256, 1, 9),
    ):
        x = operand(gaps(rng, tokens, heads, width))
        pos = operand(rng.integers(0, 100_000, tokens).astype(np.int32), 4)
        factors = operand(rng.uniform(1, 8, n_dims // 2).astype(np.float32), 4)
        for mode in (0, 2):
            for name, given, srcs in (
                ("plain", {}, [x, pos]),
                ("yarn", {"ext_factor": 1.0, "freq_scale": 0.25}, [x, pos]),
                ("factors", {"freq_base": 5e5}, [x, pos, factors]),
            ):
                ip, fp = rope_params(n_dims, mode, **given)
                dst = result("f32", x.ne)
                cases.append(Case(srcs, dst, ip, fp, name=f"{width}/{n_dims} mode {mode} {name}"))
        ip, fp = rope_params(n_dims, 2)
        cases.append(Case([x, pos], same_as(x), ip, fp, alias=0, name=f"{width} in-place"))
    x = operand(gaps(rng, 4, 2, 48))
    pos = operand(rng.integers(0, 1000, 16).astype(np.int32))
    for mode, n_dims, sections in (
        (8, 48, (6, 9, 9, 0)),
        (40, 48, (8, 8, 8, 0)),
        (24, 24, (12, 12, 0, 0)),
    ):
        ip, fp = rope_params(n_dims, mode, sections=sections)
        cases.append(Case([x, pos], result("f32", x.ne), ip, fp, name=f"mode {mode}"))
    return cases


def rope_table(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for c in rope(rng, row):
        mode, n_tokens = c.ip[1], c.dst.ne[2]
        n_pairs = c.ip[0] if mode == 24 else c.ip[0] // 2
        dst = result("f32", ((2 if mode else 4) * n_pairs, n_tokens))
        cases.append(Case(c.srcs[1:], dst, c.ip, c.fp, name=c.name))
    return cases


def rope_apply(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for width, n_dims, heads, tokens in ((64, 64, 3, 5), (80, 64, 1, 1), (36, 20, 2, 9)):
        for mode in (0, 2):
            x = operand(gaps(rng, tokens, heads, width))
            table = operand(gaps(rng, tokens, n_dims if mode else 2 * n_dims), 4)
            for alias in (None, 0):
                dst = result("f32", x.ne) if alias is None else same_as(x)
                name = f"{width}/{n_dims} mode {mode} alias {alias}"
                cases.append(Case([x, table], dst, (mode,), alias=alias, name=name))
    return cases


def rope_set_rows(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for case in (c for c in rope_apply(rng, row) if c.alias is None):
        x, table = case.srcs
        n, n_head, n_tokens, _ = x.ne
        dtype = np.float16 if row.wtype == "f16" else np.float32
        cache = operand(gaps(rng, n_head, 19, n, dtype=dtype))
        ids = operand(rng.permutation(19)[:n_tokens].astype(np.int32), 4)
        srcs = [cache, x, ids, table]
        cases.append(Case(srcs, same_as(cache), case.ip, alias=0, name=case.name))
    return cases


CASES: dict[str, Generator] = {
    **{name: two_values for name in ("add", "sub", "mul", "div")},
    "scale": one_value((0.37, -1.5)),
    "softcap": one_value((30.0,)),
    "xielu": one_value((0.9, 0.7, 0.5, -1e-6)),
    "clamp": one_value((-0.75, 1.5)),
    **{name: one_value(positive=name in ("log", "sqrt")) for name in UNARY},
    **{name: gated("f32") for name in GLU},
    **{f"{name}_quant": gated("x8") for name in GLU},
    "swiglu_oai": gated("f32", (1.702, 1.5)),
    "swiglu_oai_quant": gated("x8", (1.702, 1.5)),
    **{name: whole_rows for name in ("l2_norm", "soft_max", "sum_rows")},
    "norm": norm("f32"),
    "norm_quant": norm("x8"),
    "rms_norm": norm("f32"),
    "rms_norm_quant": norm("x8"),
    "quant_act": quant_act,
    "quant_act_pair": quant_act_pair,
    "cpy": cpy,
    "set_rows": set_rows,
    "rope": rope,
    "rope_table": rope_table,
    "rope_apply": rope_apply,
    "rope_set_rows": rope_set_rows,
}
