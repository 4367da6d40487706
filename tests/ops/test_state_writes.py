"""Ops that write a source besides their result: what placing, lowering, verifying and fusing make
of it, and that the CPU and numpy leave the same states behind."""

from __future__ import annotations

import numpy as np
import pytest
from null_machine import Machine, user_input, why

from llamapy.base.types import F32, I32
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.cpu.lower import Kernels, lower
from llamapy.devices.ref import RefDevice
from llamapy.graph.cgraph import CGraph
from llamapy.graph.device import Device
from llamapy.graph.fuse import fuse
from llamapy.graph.lives import kept
from llamapy.graph.ops import OPS, make
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor
from llamapy.graph.verify import clashes, faults

N, D, CELLS, TOKENS = 40, 4, 3, 5
Array = np.ndarray


@pytest.fixture
def cpu():
    device = CpuDevice(2)
    yield device
    device.close()


def placed(device: Device, values: Array, usage: str) -> Tensor:
    ne = (*values.shape[::-1], 1, 1, 1)[:4]
    t = Tensor(F32, (ne[0], ne[1], ne[2], ne[3]), name=usage)
    t.buffer = device.alloc(device.default_buft, t.n_bytes, usage)
    t.buffer.write(0, np.ascontiguousarray(values, np.float32))
    return t


def inputs(n_tokens: int = TOKENS) -> tuple[Tensor, Tensor]:
    x = Tensor(F32, (N, n_tokens, 1, 1), name="x", flags=INPUT)
    return x, Tensor(I32, (4, 1, 1, 1), name="runs", flags=INPUT)


class Net:
    """Two convolutions after each other, each with a state and a weight of its own."""

    def __init__(self, device: Device) -> None:
        rng = np.random.default_rng(4)
        self.device = device
        sizes = (CELLS, N, D - 1)
        self.states = [placed(device, rng.standard_normal(sizes), "state") for _ in range(2)]
        self.weights = [placed(device, rng.standard_normal((N, D)), "weights") for _ in range(2)]

    def build(self, n_tokens: int) -> tuple[Tensor, Tensor, Tensor]:
        x, runs = inputs(n_tokens)
        y = x
        for state, weight in zip(self.states, self.weights, strict=True):
            y = make("ssm_conv", state, y, weight, runs)
        y.flags |= OUTPUT
        return x, runs, y

    def step(self, values: Array, read: int, write: int) -> Array:
        n_tokens = len(values)
        x, runs, y = self.build(n_tokens)
        graph = CGraph()
        graph.build_forward_expand(y)
        compiled = Scheduler([self.device]).compile(graph)
        x.buffer.write(x.offset_bytes, values)
        runs.buffer.write(runs.offset_bytes, np.array([0, n_tokens, read, write], np.int32))
        compiled.run()
        raw = y.buffer.read(y.offset_bytes, y.n_bytes)
        return np.frombuffer(raw, np.float32).reshape(n_tokens, N).copy()

    def state(self, i: int) -> Array:
        raw = self.states[i].buffer.read(0, self.states[i].n_bytes)
        return np.frombuffer(raw, np.float32).reshape(CELLS, N, D - 1).copy()


@pytest.fixture(autouse=True)
def _verify(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAPY_VERIFY", "1")


def test_states_outlive_the_step_on_both_devices(cpu: CpuDevice) -> None:
    values = np.random.default_rng(1).standard_normal((TOKENS, N)).astype(np.float32)
    nets = Net(cpu), Net(RefDevice())
    got, want = (
        np.concatenate([net.step(values[:2], -1, 0), net.step(values[2:], 0, 1)]) for net in nets
    )
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    for i in range(2):
        np.testing.assert_allclose(nets[0].state(i), nets[1].state(i), rtol=0, atol=1e-5)
    assert np.array_equal(Net(cpu).step(values, -1, 0), got)
    assert not np.array_equal(nets[0].state(1)[0], nets[0].state(1)[1])


def syncs(cpu: CpuDevice, *nodes: Tensor) -> list[bool]:
    graph = CGraph()
    graph.build_forward_expand(*nodes)
    for t in graph.nodes:
        t.flags |= OUTPUT
    Scheduler([cpu]).compile(graph)
    return [bool(f) for f in lower(graph.nodes, Kernels()).nodes["flags"]]


def test_a_state_is_written_by_one_node_at_a_time(cpu: CpuDevice) -> None:
    net = Net(cpu)
    x, runs = inputs()
    first = make("ssm_conv", net.states[0], x, net.weights[0], runs)
    other = make("ssm_conv", net.states[1], x, net.weights[1], runs)
    assert syncs(cpu, first, other) == [False, False]
    again = make("ssm_conv", net.states[0], x, net.weights[1], runs)
    assert syncs(cpu, first, again) == [False, True]
    reader = make("silu", net.states[0])
    assert syncs(cpu, first, reader) == [False, True]
    assert syncs(cpu, make("silu", net.states[0]), first) == [False, True]


def test_a_node_runs_where_its_state_lies() -> None:
    """Not where its weight does: a copy of the state would be written instead of it."""
    m = Machine(2)
    x = user_input(n=8)
    weight = m.weight("w", m.cpu, 4, 8)
    state = m.weight("s", m.gpus[0], 3, 8, usage="any")
    runs = Tensor(I32, (4, 1, 1, 1), name="runs", flags=INPUT)
    y = make("ssm_conv", state, x, weight, runs)
    compiled = m.compile(y)
    assert why(compiled, y) == ("gpu0", "1.st0")
    assert state in y.src


def test_a_state_is_kept_and_no_value_lies_on_it() -> None:
    x, runs = inputs()
    state = Tensor(F32, (D - 1, N, CELLS, 1), name="state")
    weight = Tensor(F32, (D, N, 1, 1), name="w")
    y = make("ssm_conv", state, x, weight, runs)
    graph = CGraph()
    graph.build_forward_expand(y)
    assert kept(graph) == {y, state}

    buffer = RefDevice().alloc(RefDevice().default_buft, 1 << 20, "compute")
    for t, offset in ((state, 0), (weight, 4096), (x, 8192), (runs, 16384), (y, 32768)):
        t.buffer, t.offset_bytes = buffer, offset
    assert clashes(graph.nodes, graph.leafs) == []
    z = make("add", y, x)
    x.offset_bytes = 64
    assert (y.name, "x") in clashes([y, z], graph.leafs, keep=[z])


def test_what_a_node_computes_is_no_state() -> None:
    x, runs = inputs()
    made = make("silu", Tensor(F32, (D - 1, N, CELLS, 1), name="z"))
    y = make("ssm_conv", made, x, Tensor(F32, (D, N, 1, 1)), runs)
    assert any("which a node computes" in line for line in faults([made, y], made.src))


def test_a_read_of_a_state_is_not_moved_past_a_write() -> None:
    """rms_norm reads the state before ssm_conv writes it; fused with mul it would come after."""
    x, runs = inputs()
    state = Tensor(F32, (D - 1, N, CELLS, 1), name="state")
    norm = make("rms_norm", state, eps=1e-5)
    conv = make("ssm_conv", state, x, Tensor(F32, (D, N, 1, 1)), runs)
    graph = CGraph()
    out = make("mul", norm, Tensor(F32, (D - 1, 1, 1, 1), name="w"))
    graph.build_forward_expand(norm, conv, out)
    assert [t.op for t in fuse(graph).nodes] == ["rms_norm", "ssm_conv", "mul"]


def test_rules_refuse_shapes_that_do_not_fit() -> None:
    x, runs = inputs()
    state, weight = Tensor(F32, (D - 1, N, CELLS, 1)), Tensor(F32, (D, N, 1, 1))
    assert make("ssm_conv", state, x, weight, runs).ne == (N, TOKENS, 1, 1)
    for wrong in (Tensor(F32, (D, N, CELLS, 1)), Tensor(F32, (D - 1, N + 1, CELLS, 1))):
        with pytest.raises(ValueError, match="state"):
            make("ssm_conv", wrong, x, weight, runs)
    with pytest.raises(ValueError, match="runs"):
        make("ssm_conv", state, x, weight, Tensor(I32, (3, 1, 1, 1)))
    writers = [op for op in OPS.values() if op.also_writes]
    assert writers and all(op.also_writes == (0,) for op in writers)
