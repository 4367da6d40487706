"""The scheduler's decisions on null devices: each pass with its causes, cuts, copies, offload."""

from __future__ import annotations

import pytest
from null_machine import Machine, chain, graph, named, names, user_input, why

from llamapy.base.errors import LlamapyError
from llamapy.base.types import F32, I32
from llamapy.devices.null import NullDevice
from llamapy.graph.assign import PASSES
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import make, reshape, view
from llamapy.graph.placing import Placing
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, Tensor


@pytest.fixture(autouse=True)
def _verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAPY_VERIFY", "1")


# Pass 1.


def test_memory_weights_and_inputs_pin() -> None:
    m = Machine()
    gpu = m.gpus[0]
    w, cache = m.weight("w", gpu), m.weight("cache", gpu, 8, 4, usage="any")
    x = user_input()
    y = make("mul_mat", w, x)
    ids = Tensor(I32, (2, 1, 1, 1), flags=INPUT)
    store = make("set_rows", cache, y, ids)
    seen = view(cache, (8, 2), ())
    c = m.compile(store, make("add", seen, y))
    assert why(c, w) == ("gpu0", "1.dst")
    assert why(c, cache) == ("gpu0", "1.dst")
    assert why(c, x) == ("cpu", "1.inp")
    assert why(c, y) == ("gpu0", "1.wgt0")
    assert why(c, store) == ("gpu0", "1.vsrc")
    assert why(c, seen) == ("gpu0", "1.vsrc")


def test_a_weight_as_second_source_pins_too() -> None:
    m = Machine()
    y = make("add", make("silu", user_input()), m.weight("b", m.gpus[0], 8))
    assert why(m.compile(y), y) == ("gpu0", "1.wgt1")


def test_rope_factors_and_sinks_do_not_decide() -> None:
    m = Machine(3)
    p = dict(n_dims=8, mode=0, n_ctx_orig=0, sections=[0] * 4, freq_base=1e4, freq_scale=1.0,
             ext_factor=0.0, attn_factor=1.0, beta_fast=32.0, beta_slow=1.0)  # fmt: skip
    y = make("mul_mat", m.weight("w", m.gpus[0]), user_input())
    pos = Tensor(I32, (2, 1, 1, 1), name="pos", flags=INPUT)
    factors = m.weight("factors", m.gpus[1], 4)
    r = make("rope", reshape(y, 8, 1, 2), pos, factors, **p)
    assert why(m.compile(r), r) == ("gpu0", "2.sup")
    table = make("rope_table", pos, factors, **p)
    r = make("rope_apply", reshape(y, 8, 1, 2), table, mode=0)
    c = m.compile(r)
    assert why(c, r) == why(c, table) == ("gpu0", "2.sup")

    cache = m.weight("cache", m.gpus[0], 8, 64, usage="any")
    k = view(cache, (8, 1, 64), (32, 32))
    idx, seen = Tensor(I32, (64, 1, 1, 1), flags=INPUT), Tensor(I32, (4, 2, 1, 1), flags=INPUT)
    q = reshape(make("mul_mat", m.weight("w", m.gpus[0]), user_input()), 8, 1, 2)
    a = make("flash_attn", q, k, k, idx, seen, m.weight("sinks", m.gpus[1], 1),
             scale=1.0, max_bias=0.0, softcap=0.0)  # fmt: skip
    assert why(m.compile(a), a) == ("gpu0", "2.sup")


def test_host_weights_go_to_a_device_that_wants_them() -> None:
    m = Machine(3)
    for i, gpu in enumerate(m.gpus):
        gpu._offloads = lambda t, i=i: i == 1 and t.op == "mul_mat"
    w, x = m.weight("w", m.cpu), user_input()
    y = make("mul_mat", w, x)
    z = make("add", y, m.weight("b", m.cpu, 8))
    c = m.compile(z)
    assert why(c, y) == ("gpu1", "1.off")
    assert why(c, z) == ("cpu", "1.wgt1")
    assert [i.src.name for i in c.splits[0].inputs] == ["x", "w"]
    assert [i.src.name for i in c.splits[1].inputs] == [y.name]


def test_no_offload_of_what_the_device_cannot_run() -> None:
    m = Machine()
    m.gpus[0]._offloads = lambda t: True
    m.gpus[0]._runs = lambda t: t.op != "mul_mat"
    y = make("mul_mat", m.weight("w", m.cpu), user_input())
    assert why(m.compile(y), y) == ("cpu", "1.wgt0")


def test_memory_that_no_device_can_compute_on_is_named() -> None:
    m = Machine()
    m.gpus[0]._runs = lambda t: t.op != "set_rows"
    cache = m.weight("cache", m.gpus[0], 8, 4, usage="any")
    ids = Tensor(I32, (2, 1, 1, 1), flags=INPUT)
    store = named("store", make("set_rows", cache, user_input(), ids))
    with pytest.raises(LlamapyError, match="store: no device runs set_rows on memory of type gpu0"):
        m.compile(store)


# Pass 2.


def test_devices_spread_down_and_up_the_cpu_does_not() -> None:
    m = Machine()
    x = user_input()
    before = make("silu", make("mul_mat", m.weight("w0", m.cpu), x))
    y = make("mul_mat", m.weight("w", m.gpus[0]), before)
    after = make("relu", y)
    c = m.compile(after)
    assert why(c, before) == ("gpu0", "2.sup")  # up from y, before the cpu may spread down
    assert why(c, after) == ("gpu0", "2.sup")


def test_between_its_own_nodes_the_cpu_spreads() -> None:
    m = Machine()
    a = make("mul_mat", m.weight("w0", m.cpu), user_input())
    mid = make("silu", a)
    c = m.compile(make("mul_mat", m.weight("w1", m.cpu), mid))
    assert why(c, mid) == ("cpu", "2.sup")
    assert len(c.splits) == 1 and not c.splits[0].inputs


def test_spread_stops_where_an_op_is_not_supported() -> None:
    m = Machine()
    m.gpus[0]._runs = lambda t: t.op != "exp"
    y = make("mul_mat", m.weight("w", m.gpus[0]), user_input())
    exp = make("exp", y)
    after = make("silu", exp)
    c = m.compile(after)
    assert why(c, after) == ("gpu0", "2.sup")
    assert why(c, exp) == ("cpu", "3.best")
    assert names(c) == [("gpu0", [y.name]), ("cpu", [exp.name]), ("gpu0", [after.name])]


# Pass 3.


def test_a_better_device_on_the_same_memory_takes_over() -> None:
    """A device that computes on the CPU's own memory (as a BLAS does) but has matmul only."""
    log: list[tuple[object, ...]] = []
    cpu = NullDevice("cpu", host=True, log=log)
    blas = NullDevice("blas", host=True, log=log, runs=lambda t: t.op == "mul_mat")
    m = Machine()
    first = make("silu", user_input("a"))
    row = make("mul", user_input("b"), m.weight("row", cpu, 8))
    product = make("mul_mat", first, row)
    pinned = make("mul_mat", m.weight("w", cpu, 2, 8), product)
    c = Scheduler([blas, cpu], [cpu.default_buft] * 2).compile(graph(pinned))
    assert why(c, pinned) == ("blas", "1.wgt0")  # the first device that reads the weight
    assert why(c, product) == ("blas", "2.sup")
    assert why(c, first) == ("cpu", "2.sup")
    assert names(c)[-1] == ("blas", [product.name, pinned.name])
    assert all(not s.inputs for s in c.splits)

    alone = make("mul_mat", make("silu", user_input()), make("mul", user_input(), row.src[1]))
    c = Scheduler([blas, cpu], [cpu.default_buft] * 2).compile(graph(alone))
    assert why(c, alone) == ("blas", "3.up")  # the cpu had spread to it


def test_an_open_node_goes_where_most_of_its_sources_are() -> None:
    m = Machine(3)
    for gpu in m.gpus:
        gpu._runs = lambda t: t.op in ("mul_mat", "flash_attn")
    m.cpu._runs = lambda t: t.op != "flash_attn"
    on1 = [make("mul_mat", m.weight(f"w{i}", m.gpus[1]), user_input(f"x{i}")) for i in range(2)]
    gap = make("exp", on1[0])  # keeps gpu1 from spreading to what follows
    q = reshape(make("exp", on1[1]), 8, 1, 2)
    cache = m.weight("cache", m.gpus[1], 8, 64, usage="any")
    k = view(cache, (8, 1, 64), (32, 32))
    idx, seen = Tensor(I32, (64, 1, 1, 1), flags=INPUT), Tensor(I32, (4, 2, 1, 1), flags=INPUT)
    a = make("flash_attn", q, k, k, idx, seen, scale=1.0, max_bias=0.0, softcap=0.0)
    p = Placing([], [], m.devices, [d.default_buft for d in m.devices])
    g = graph(gap, a)
    p.nodes, p.leafs = g.nodes, g.leafs
    PASSES[0](p)
    PASSES[2](p)  # without pass 2, which would spread from the matmuls
    assert p.where[a] == (1, "3.best")


# Pass 4.


def test_views_go_with_their_root_and_constants_with_their_reader() -> None:
    m = Machine()
    y = make("mul_mat", m.weight("w", m.gpus[0]), user_input())
    seen = reshape(y, 16)
    constant = Tensor(F32, (16, 1, 1, 1), name="constant")
    out = make("add", seen, constant)
    c = m.compile(out)
    assert why(c, seen) == ("gpu0", "4.vsrc")
    assert why(c, constant) == ("gpu0", "4.cur")
    assert constant.buffer.type is m.gpus[0].default_buft


def test_what_is_left_takes_the_first_device_that_can() -> None:
    m = Machine(1)
    c = m.compile(make("silu", Tensor(F32, (4, 1, 1, 1), name="c")))
    assert why(c, c.order[0]) == ("cpu", "4.first")


def test_an_op_that_nobody_runs_is_named() -> None:
    m = Machine()
    for d in m.devices:
        d._runs = lambda t: t.op != "exp"
    out = named("strange", make("exp", user_input()))
    with pytest.raises(
        LlamapyError, match=r"strange: no device runs exp of f32 \(asked: gpu0, cpu"
    ):
        m.compile(out)


# Pass 5.


def test_one_split_per_run_of_a_device_and_copies_at_its_edges() -> None:
    m = Machine(3)
    x, y = chain(m, m.gpus[0], m.gpus[0], m.gpus[1], m.cpu)
    c = m.compile(y[-1])
    assert names(c) == [("gpu0", ["y0", "y1"]), ("gpu1", ["y2"]), ("cpu", ["y3"])]
    assert [[i.src for i in s.inputs] for s in c.splits] == [[x], [y[1]], [y[2]]]
    copy = c.splits[1].inputs[0].dst[0]
    assert y[2].src[1] is copy and copy.name == "gpu1#y1#0"
    assert copy.buffer.type is m.gpus[1].default_buft
    assert why(c, copy) == ("gpu1", "5.copy")
    assert [(s.start, s.end) for s in c.splits] == [(0, 2), (2, 3), (3, 4)]


def test_host_memory_needs_no_copy_for_a_device_that_reads_it() -> None:
    m = Machine()
    m.gpus[0]._reads = lambda buft: buft.host
    m.gpus[0]._runs = lambda t: t.op != "silu"
    y = make("mul_mat", m.weight("w", m.gpus[0]), make("silu", user_input()))
    c = m.compile(y)
    assert [s.inputs for s in c.splits] == [[], []]


def test_a_tensor_is_copied_once_per_device() -> None:
    m = Machine()
    m.gpus[0]._runs = lambda t: t.op != "exp"
    x = user_input()
    a = make("mul_mat", m.weight("w0", m.gpus[0]), x)
    b = make("mul_mat", m.weight("w1", m.gpus[0]), make("exp", a))
    out = make("mul", make("add", b, x), x)
    c = m.compile(out)
    assert [d for d, _ in names(c)] == ["gpu0", "cpu", "gpu0"]
    assert [[i.src.name for i in s.inputs] for s in c.splits][2] == [b.src[1].src[0].name]
    assert out.src[1] is c.splits[0].inputs[0].dst[0] is out.src[0].src[1]


def test_views_never_cut_and_are_copied_as_what_they_show() -> None:
    m = Machine()
    m.gpus[0]._runs = lambda t: t.op == "mul_mat"
    y = make("mul_mat", m.weight("w", m.gpus[0]), user_input())
    part = named("part", view(y, (8, 1), (), 32))
    z = make("silu", part)
    c = m.compile(z)
    assert names(c) == [("gpu0", [y.name, "part"]), ("cpu", [z.name])]
    copy = c.splits[1].inputs[0]
    assert copy.src is part and copy.dst[0].ne == part.ne and copy.dst[0].n_bytes == 32


def test_a_second_foreign_weight_starts_a_new_split() -> None:
    m = Machine()
    m.gpus[0]._offloads = lambda t: t.op == "mul_mat"
    x, y = chain(m, m.cpu, m.cpu, m.cpu)
    c = m.compile(y[-1])
    assert names(c) == [("gpu0", ["y0"]), ("gpu0", ["y1"]), ("gpu0", ["y2"])]
    assert [[i.src.name for i in s.inputs] for s in c.splits] == [["x", "w0"], ["w1"], ["w2"]]
    assert [i.rank for i in c.splits[0].inputs] == [0, 2]
    first, third = c.splits[0].inputs[1].dst[0], c.splits[2].inputs[0].dst[0]
    assert first.offset_bytes == third.offset_bytes  # its memory is used again


def test_too_many_inputs_start_a_new_split() -> None:
    m = Machine()
    total = make("mul_mat", m.weight("w", m.gpus[0]), user_input("x"))
    for i in range(40):
        total = make("add", total, user_input(f"x{i}"))
    c = m.compile(total)
    assert [len(s.inputs) for s in c.splits] == [30, 11]


def test_what_is_not_selected_is_not_run_but_its_inputs_have_a_place() -> None:
    m = Machine(1)
    a, b = user_input("a"), user_input("b")
    g = CGraph()
    one, two = make("silu", a), make("relu", b)
    g.build_forward_select([one, two], 1)
    c = Scheduler(m.devices).compile(g)
    assert names(c) == [("cpu", [two.name])]
    assert a.buffer is not None and b.buffer is not None and one.buffer is None
