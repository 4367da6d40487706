"""What the scheduler compiles: order of copies and waits, pipeline copies, rewriting by devices,
reserve and reuse, and that any split gives the same values."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from null_machine import Machine, chain, graph, named, names, user_input, why

from llamapy.base.errors import LlamapyError, MemoryBudgetError
from llamapy.base.types import F32
from llamapy.devices.null import NullDevice
from llamapy.devices.ref import RefDevice
from llamapy.devices.ref.memory import rows
from llamapy.graph.cgraph import CGraph
from llamapy.graph.fuse import fuse
from llamapy.graph.ops import make, reshape, view
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor


@pytest.fixture(autouse=True)
def _verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAPY_VERIFY", "1")


# Running.


def test_the_order_of_copies_waits_and_runs() -> None:
    m = Machine(3)
    _, y = chain(m, m.gpus[0], m.gpus[1])
    c = m.compile(y[-1])
    c.run()
    assert m.log == [
        ("copy", "gpu0", "x", "gpu0#x#0"),
        ("run", "gpu0", ["y0"]),
        ("record", "gpu0", 1),
        ("wait", "gpu1", ("gpu0", 1)),
        ("copy", "gpu1", "y0", "gpu1#y0#0"),
        ("run", "gpu1", ["y1"]),
        ("record", "gpu1", 1),
    ]
    m.log.clear()
    c.run()
    assert m.log[:2] == [("wait", "gpu0", ("gpu0", 1)), ("copy", "gpu0", "x", "gpu0#x#0")]
    m.log.clear()
    c.synchronize()
    assert sorted(m.log) == [("synchronize", "gpu0"), ("synchronize", "gpu1")]


def test_a_split_without_inputs_waits_for_the_one_before() -> None:
    m = Machine()
    m.gpus[0]._reads = lambda buft: buft.host
    m.gpus[0]._runs = lambda t: t.op == "mul_mat"
    y = make("mul_mat", m.weight("w", m.gpus[0]), named("s", make("silu", user_input())))
    c = m.compile(y)
    c.run()
    assert m.log == [
        ("run", "cpu", ["s"]),
        ("record", "cpu", 1),
        ("wait", "gpu0", ("cpu", 1)),
        ("run", "gpu0", [y.name]),
        ("record", "gpu0", 1),
    ]


def test_host_weights_are_copied_last() -> None:
    m = Machine(3)
    m.gpus[0]._offloads = lambda t: True
    host = m.weight("host", m.cpu)
    other = m.weight("other", m.gpus[1], 8, 2)
    y = make("mul_mat", host, user_input(), other)
    c = m.compile(y)
    assert [(i.src.name, i.rank) for i in c.splits[0].inputs] == [
        ("x", 0),
        ("other", 1),
        ("host", 2),
    ]


def test_pipeline_copies_rotate_and_each_has_its_own_memory() -> None:
    m = Machine()
    x, y = chain(m, m.gpus[0])
    c = m.compile(y[-1], n_copies=2)
    twins = c.splits[0].inputs[0].dst
    assert [t.name for t in twins] == ["gpu0#x#0", "gpu0#x#1"]
    assert len({t.offset_bytes for t in twins}) == 2
    lowered = [programs[0].places["y0"][1] for programs in c.programs]
    assert lowered == [t.home() for t in twins]
    for _ in range(3):
        c.run()
    copies = [e for e in m.log if e[0] == "copy"]
    assert [e[3] for e in copies] == ["gpu0#x#0", "gpu0#x#1", "gpu0#x#0"]
    third = m.log.index(("copy", "gpu0", "x", "gpu0#x#0"), 1)
    assert m.log[third - 1] == ("wait", "gpu0", ("gpu0", 1))  # only for its own last use
    assert ("wait", "gpu0", ("gpu0", 2)) not in m.log


def test_pipeline_copies_share_their_place_with_nothing() -> None:
    """Not even with what a run computes before them: the run before may still read its twin."""

    def overlaps(n_copies: int) -> set[str]:
        m = Machine()
        _, y = chain(m, m.gpus[0], m.gpus[0], m.cpu, m.gpus[0], m.gpus[0])
        c = m.compile(y[-1], n_copies=n_copies)
        twins = [t for s in c.splits for i in s.inputs for t in i.dst if t.name.startswith("gpu0")]
        assert len(twins) == 2 * n_copies
        others = [t for t in c.order if t.buffer is twins[0].buffer]
        return {o.name for t in twins for o in others if o is not t and o.home() == t.home()}

    assert overlaps(2) == set()
    assert overlaps(1) != set()


# Preparing.


class Fuser(NullDevice):
    """Drops every silu that only its own split reads, and says what it was told to keep."""

    def prepare(self, nodes: list[Tensor], keep: Collection[int] = ()) -> list[Tensor]:
        out = []
        for t in nodes:
            if t.op == "silu" and id(t) not in keep:
                continue
            if t.src[0].op == "silu" and id(t.src[0]) not in keep:
                t.src = (t.src[0].src[0], *t.src[1:])
            if t.op == "relu":
                made = named("inserted", make("exp", t.src[0]))
                out.append(made)
                t.src = (made,)
            out.append(t)
        return out


def test_devices_rewrite_their_splits_before_memory_is_planned() -> None:
    cpu = Fuser("cpu", host=True)
    mid = named("mid", make("silu", user_input()))
    out = named("out", make("relu", mid))
    c = Scheduler([cpu]).compile(graph(out))
    assert names(c) == [("cpu", ["inserted", "out"])]
    inserted = c.order[0]
    assert why(c, inserted) == ("cpu", "5.prep") and inserted.buffer is not None
    assert mid.buffer is None


def test_what_another_split_or_the_user_reads_is_kept() -> None:
    cpu = Fuser("cpu", host=True)
    gpu = NullDevice("gpu", runs=lambda t: t.op in ("mul_mat", "cpy"))
    m = Machine()
    crosses = named("crosses", make("silu", user_input()))
    on_gpu = make("mul_mat", m.weight("w", gpu), crosses)
    output = named("output", make("silu", make("relu", crosses)))
    through = named("through", make("silu", make("relu", on_gpu)))
    last = make("cpy", reshape(through, 16), type="f32")
    c = Scheduler([gpu, cpu]).compile(graph(on_gpu, output, last))
    kept = {t.name for t in c.order}
    assert {"crosses", "output", "through"} <= kept


# Reserve and compile.


def decoder(n: int, m: Machine, w: Tensor) -> CGraph:
    y = Tensor(F32, (8, n, 1, 1), name="x", flags=INPUT)
    for _ in range(3):
        y = make("add", make("mul_mat", w, make("silu", y)), y)
    return graph(y)


def test_compile_after_reserve_opens_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAPY_STRICT_REUSE", "1")
    m = Machine()
    w = m.weight("w", m.gpus[0])
    s = Scheduler(m.devices)
    planned = [s.reserve(decoder(n, m, w)) for n in (512, 1, 512)]
    assert planned[0] == planned[2] == s.buffer_bytes()
    assert planned[1] == planned[0]  # the table of the larger graph holds
    opened = len([e for e in m.log if e[0] == "alloc"])
    for n in (512, 1, 7, 511):
        s.compile(decoder(n, m, w)).run()
    assert len([e for e in m.log if e[0] == "alloc"]) == opened
    assert s.n_reallocs == 0
    with pytest.raises(LlamapyError, match="unforeseen reallocation"):
        s.compile(decoder(1024, m, w))


def test_a_larger_graph_reopens_and_is_counted() -> None:
    m = Machine()
    w = m.weight("w", m.gpus[0])
    s = Scheduler(m.devices)
    s.reserve(decoder(4, m, w))
    old = s.compile(decoder(4, m, w))
    new = s.compile(decoder(64, m, w))
    assert s.n_reallocs == 1
    new.run()
    with pytest.raises(AssertionError, match="outlived its memory"):
        old.run()


def test_buffer_bytes_are_what_was_planned_and_free_returns_them() -> None:
    m = Machine()
    w = m.weight("w", m.gpus[0])
    s = Scheduler(m.devices)
    planned = s.reserve(decoder(16, m, w))
    live = [b for d in m.devices for b in d.buffers if b.usage == "compute" and not b.freed]
    assert sum(b.n_bytes for b in live) == sum(planned.values()) == sum(s.buffer_bytes().values())
    s.free()
    assert all(b.freed for b in live) and sum(s.buffer_bytes().values()) == 0


def test_a_device_without_room_says_so() -> None:
    m = Machine()
    w = m.weight("w", m.gpus[0])
    m.gpus[0].memory_bytes = 1000
    with pytest.raises(MemoryBudgetError, match="gpu0: cannot open a compute buffer"):
        Scheduler(m.devices).reserve(decoder(512, m, w))


def test_buffers_over_the_maximum_of_a_device_are_cut() -> None:
    gpu = NullDevice("gpu", max_bytes=4096)
    m = Machine()
    w = m.weight("w", gpu)
    s = Scheduler([gpu, m.cpu])
    s.compile(decoder(64, m, w)).run()
    opened = [b.n_bytes for b in gpu.buffers]
    assert len(opened) > 1 and max(opened) <= 4096


# Values.


def test_any_split_gives_the_same_values() -> None:
    """Three numpy devices, weights dealt out in every way, with and without fusions and copies."""
    rng = np.random.default_rng(3)
    shapes = [(8, 8)] * 4
    weights = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    x0 = rng.standard_normal((2, 8)).astype(np.float32)
    results = []
    for deal in range(3**4):
        devices = [RefDevice(np.float32, name=f"ref{i}") for i in range(3)]
        y = x = user_input()
        for i, values in enumerate(weights):
            home = devices[deal // 3**i % 3]
            w = Tensor(F32, (8, 8, 1, 1), name=f"w{i}")
            w.buffer = home.alloc(home.default_buft, w.n_bytes, "weights")
            w.buffer.write(0, values)
            h = make("mul", make("rms_norm", y, eps=1e-5), view(w, (8,), ()))
            y = make("add", make("mul_mat", w, h), y)
        y.flags |= OUTPUT
        g = graph(y)
        compiled = Scheduler(devices, n_copies=1 + deal % 2).compile(fuse(g) if deal % 3 else g)
        for _ in range(3):
            x.buffer.write(x.offset_bytes, x0)
            compiled.run()
            results.append(rows(y).tobytes())
    assert len(results) == 243 and len(set(results)) == 1
