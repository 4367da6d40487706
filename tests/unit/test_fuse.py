"""Fusions: when they apply, when they must not, and that the bits stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from llamapy.base.types import BY_NAME, F16, F32, I32, Type
from llamapy.devices.null import NullBuffer, NullDevice
from llamapy.devices.ref import RefDevice
from llamapy.devices.ref.memory import encode, rows
from llamapy.graph.cgraph import CGraph
from llamapy.graph.fuse import RULES, SWALLOW, fuse
from llamapy.graph.ops import make, permute, reshape, view
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor
from llamapy.graph.verify import faults

DEVICE = NullDevice()


def t(name: str, *ne: int, type_: Type = F32) -> Tensor:
    shape = (*ne, 1, 1, 1, 1)
    made = Tensor(type_, (shape[0], shape[1], shape[2], shape[3]), name=name)
    made.buffer = NullBuffer([], DEVICE.default_buft, made.n_bytes, "weights")
    return made


def fused(*outputs: Tensor, off: tuple[str, ...] = ()) -> list[str]:
    """Ops left after fusing."""
    g = CGraph()
    g.build_forward_expand(*outputs)
    uid = g.uid
    out = fuse(g, off)
    assert out.uid != uid
    assert faults(out.nodes, out.leafs) == []
    counted = {n: 0 for n in (*out.nodes, *out.leafs)}
    for node in out.nodes:
        for s in node.src:
            counted[s] += 1
    assert out.uses == counted
    return [n.op for n in out.nodes]


X, ROW, W = t("x", 8, 4), t("row", 8), t("w", 8, 8)


def norm(x: Tensor = X) -> Tensor:
    return make("rms_norm", x, eps=1e-5)


def product(x: Tensor = X) -> Tensor:
    return make("mul_mat", W, x)


def test_norm_and_weight_become_one_and_say_so() -> None:
    n = norm()
    n.name = "norm-0"
    out = make("mul", n, ROW)
    out.name = "attn_norm-0"
    assert fused(out) == ["rms_norm"]
    assert out.src == (X, ROW) and out.params["eps"] == 1e-5
    assert out.params["fused"] == ("rms_norm norm-0", "mul attn_norm-0")
    assert out.name == "attn_norm-0"


@pytest.mark.parametrize("residual", [t("bias", 8), t("residual", 8, 4)])
def test_matmul_takes_bias_or_residual(residual: Tensor) -> None:
    p = product()
    out = make("add", p, residual)
    assert fused(out) == ["mul_mat"]
    assert out.src == (W, X, residual)


def test_a_residual_may_stand_first_a_bias_may_not() -> None:
    residual = t("residual", 8, 4)
    out = make("add", residual, product())
    assert fused(out) == ["mul_mat"] and out.src == (W, X, residual)


def test_of_two_matmuls_the_later_swallows_the_sum() -> None:
    first, second = product(), product()
    out = make("add", first, second)
    assert fused(out) == ["mul_mat", "mul_mat"]
    assert out.src == (W, X, first)


def test_a_bias_and_a_residual_do_not_both_fit() -> None:
    out = make("add", make("add", product(), t("bias", 8)), t("residual", 8, 4))
    assert fused(out) == ["mul_mat", "add"]


def not_fused() -> dict[str, tuple[Tensor, ...]]:
    used_twice, seen, output, twice = norm(), norm(), norm(), product()
    output.flags |= OUTPUT
    viewed = product()
    return {
        "a second use": (make("mul", used_twice, ROW), make("silu", used_twice)),
        "a view": (make("mul", seen, ROW), reshape(seen, 32)),
        "an output": (make("mul", output, ROW),),
        "a full weight": (make("mul", norm(), t("full", 8, 4)),),
        "a half weight": (make("mul", norm(), t("half", 8, type_=F16)),),
        "a short weight": (make("mul", norm(), t("short", 4)),),
        "norm second": (make("mul", t("full", 8, 4), norm()),),
        "weighted already": (make("mul", make("rms_norm", X, ROW, eps=0.0), ROW),),
        "itself": (make("add", twice, twice),),
        "an added column": (make("add", product(), t("col", 1, 4)),),
        "a viewed product": (make("add", viewed, t("b", 8)), view(viewed, (8, 1), ())),
        "an addend already": (make("add", make("mul_mat", W, X, ROW), t("r", 8, 4)),),
        "a strided residual": (
            make("add", product(), view(t("big", 32, 8), (8, 4), (128,), 0)),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", not_fused())
def test_not_fused(case: str) -> None:
    outputs = not_fused()[case]
    g = CGraph()
    g.build_forward_expand(*outputs)
    ops = [n.op for n in g.nodes]
    if case == "a strided residual":  # rows are whole: the kernel walks them by their stride
        assert fused(*outputs) == ["view", "mul_mat"]
    else:
        assert fused(*outputs) == ops


def test_a_node_that_is_not_selected_is_not_swallowed() -> None:
    n = norm()
    g = CGraph()
    g.build_forward_select([n, make("mul", n, ROW)], 0)
    assert [node.op for node in fuse(g).nodes] == ["rms_norm", "mul"]


def test_a_read_of_a_cache_is_not_moved_past_a_write() -> None:
    cache = t("cache", 8, 16)
    y = make("mul_mat", W, view(cache, (8, 4), ()))
    g = CGraph()
    g.build_forward_expand(y)
    g.build_forward_expand(make("set_rows", cache, X, t("ids", 4, type_=I32)))
    g.build_forward_expand(make("add", y, ROW))
    assert [n.op for n in fuse(g).nodes] == ["view", "mul_mat", "set_rows", "add"]


@pytest.mark.parametrize("rule", SWALLOW)
def test_each_rule_can_be_switched_off(rule: str) -> None:
    def ops(*off: str) -> int:
        h = make("add", make("mul", make("norm", X, eps=1e-5), ROW), ROW)
        return len(fused(make("add", make("mul_mat", W, h), ROW), off=off))

    assert ops() == 2
    assert ops(rule) == (4 if rule == "norm_weight" else 3)  # a bias follows a weight
    assert ops(*RULES) == 5


ROPE = dict(
    n_dims=8, mode=0, n_ctx_orig=64, sections=[0] * 4, freq_base=1e4, freq_scale=1.0,
    ext_factor=0.0, attn_factor=1.0, beta_fast=32.0, beta_slow=1.0,
)  # fmt: skip
POS, HEADS = t("pos", 4, type_=I32), t("heads", 8, 2, 4)


def rope(*srcs: Tensor, **changed: object) -> Tensor:
    return make("rope", *(srcs or (HEADS, POS)), **{**ROPE, **changed})


def test_ropes_by_the_same_angles_read_one_table() -> None:
    factors = t("factors", 4)
    q, k, local = rope(), rope(t("k", 10, 1, 4), POS), rope(freq_base=1e3)
    by = [rope(HEADS, POS, factors, mode=2, sections=list(s)) for s in ((0,) * 4, (0,) * 4)]
    assert fused(q, by[0], local, by[1], k) == [
        "rope_table", "rope_apply", "rope_table", "rope_apply", "rope", "rope_apply", "rope_apply",
    ]  # fmt: skip
    table, other = q.src[1], by[0].src[1]
    assert k.src == (k.src[0], table) and q.src[0] is HEADS and by[1].src[1] is other
    assert table.src == (POS,) and table.ne == (16, 4, 1, 1) and table.params == ROPE
    assert other.src == (POS, factors) and other.ne == (8, 4, 1, 1)
    assert q.params == {"mode": 0} and by[1].params == {"mode": 2}


@pytest.mark.parametrize(
    "others",
    [
        lambda: rope(HEADS, t("pos", 4, type_=I32)),
        lambda: rope(HEADS, POS, t("factors", 4)),
        lambda: rope(n_dims=6),
        lambda: rope(mode=2),
        lambda: rope(sections=[1, 0, 0, 0]),
        lambda: rope(ext_factor=1.0),
        lambda: rope(t("fewer", 8, 2, 3), POS),
    ],
)
def test_ropes_by_other_angles_make_their_own(others: Callable[[], Tensor]) -> None:
    assert fused(rope(), others()) == ["rope", "rope"]


def test_what_is_not_computed_shares_no_table() -> None:
    g = CGraph()
    g.build_forward_select([rope(), rope()], 0)
    assert [node.op for node in fuse(g).nodes] == ["rope", "rope"]
    assert fused(rope(), rope(), off=("rope_tables",)) == ["rope", "rope"]


def test_factors_that_are_written_are_read_when_they_were() -> None:
    factors = t("factors", 4, 1)
    store = make("set_rows", factors, t("row", 4), t("ids", 1, type_=I32))
    ops = ["rope", "set_rows", "rope"]
    assert fused(rope(HEADS, POS, factors), store, rope(HEADS, POS, factors)) == ops


def stored(k: Tensor, type_: Type = F16, ids: Tensor | None = None) -> Tensor:
    cache = t("cache_k", 8, 16, 2, type_=type_)
    return make("set_rows", cache, permute(k, 0, 2, 1), ids or t("rows", 4, type_=I32))


@pytest.mark.parametrize("type_", [F16, F32])
def test_what_is_stored_is_turned_on_the_way(type_: Type) -> None:
    k = rope(x := t("k", 8, 2, 4), POS)
    k.name, node = "k_rope-0", stored(k, type_)
    node.name = "k_set-0"
    cache, _, ids = node.src
    assert fused(q := rope(), node) == ["rope_table", "rope_apply", "rope_set_rows"]
    assert node.src == (cache, x, ids, q.src[1]) and node.view_src is cache
    assert node.params == {"mode": 0, "fused": ("rope_apply k_rope-0", "set_rows k_set-0")}


def test_what_is_read_besides_or_stored_otherwise_is_not() -> None:
    def last(node: Tensor, *others: Tensor, off: tuple[str, ...] = ()) -> str:
        fused(rope(), rope(), node, *others, off=off)
        return node.op

    assert last(stored(rope())) == "rope_set_rows"
    k = rope()
    assert last(stored(k), make("silu", k)) == "set_rows"
    assert last(stored(rope(), BY_NAME["bf16"])) == "set_rows"
    assert last(stored(rope(), ids=t("rows", 2, type_=I32))) == "set_rows"
    assert last(stored(rope(freq_base=2.0))) == "set_rows"
    assert last(stored(rope()), off=("rope_store",)) == "set_rows"
    k = rope(t("k", 8, 1, 4), POS)  # a plane for each token
    assert last(make("set_rows", t("c", 8, 16, 4), k, t("r", 1, type_=I32))) == "set_rows"


def test_the_fused_graph_gives_the_same_bits() -> None:
    rng = np.random.default_rng(7)
    values = {
        "x": rng.standard_normal((5, 64)).astype(np.float32),
        "row": rng.standard_normal(64).astype(np.float32),
        "w": rng.standard_normal((64, 64)).astype(np.float32),
        "bias": rng.standard_normal(64).astype(np.float32),
    }

    def run(off: tuple[str, ...]) -> tuple[int, bytes]:
        given = {}
        for name, a in values.items():
            shape = (*a.shape[::-1], 1, 1, 1)[:4]
            given[name] = Tensor(F32, shape, name=name, flags=INPUT)
        x = given["x"]
        h = make("mul", make("rms_norm", x, eps=1e-6), given["row"])
        y = make("add", make("mul_mat", given["w"], h), given["bias"])
        y = make("add", make("mul_mat", given["w"], make("silu", y)), x)
        y.flags |= OUTPUT
        g = CGraph()
        g.build_forward_expand(y)
        compiled = Scheduler([RefDevice(np.float32)]).compile(fuse(g, off))
        for name, tensor in given.items():
            tensor.buffer.write(tensor.offset_bytes, encode(values[name], F32))
        compiled.run()
        return len(compiled.order), rows(y).tobytes()

    plain, bits = run(tuple(RULES))
    fewer, same = run(())
    assert (plain, fewer) == (7, 4)
    assert bits == same
