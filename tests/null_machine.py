"""Null devices that stand in for a machine, for tests of the scheduler."""

from __future__ import annotations

from llamapy.base.types import F32
from llamapy.devices.null import NullDevice
from llamapy.graph.cgraph import CGraph
from llamapy.graph.compiled import Compiled
from llamapy.graph.ops import make
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, Tensor


class Machine:
    """Null devices `gpu0`, `gpu1`, .. and `cpu`, which share one log."""

    def __init__(self, n: int = 2, **cpu: object) -> None:
        self.log: list[tuple[object, ...]] = []
        self.gpus = [NullDevice(f"gpu{i}", log=self.log) for i in range(n - 1)]
        self.cpu = NullDevice("cpu", host=True, log=self.log, **cpu)
        self.devices = [*self.gpus, self.cpu]

    def weight(self, name: str, device: NullDevice, *ne: int, usage: str = "weights") -> Tensor:
        a, b = (*ne, 1)[:2] if ne else (8, 8)
        t = Tensor(F32, (a, b, 1, 1), name=name)
        t.buffer = device.alloc(device.default_buft, t.n_bytes, usage)
        return t

    def compile(self, *outputs: Tensor, n_copies: int = 1) -> Compiled:
        compiled = Scheduler(self.devices, n_copies=n_copies).compile(graph(*outputs))
        self.log.clear()
        return compiled


def graph(*outputs: Tensor) -> CGraph:
    g = CGraph()
    g.build_forward_expand(*outputs)
    return g


def named(name: str, t: Tensor) -> Tensor:
    t.name = name
    return t


def user_input(name: str = "x", n: int = 8) -> Tensor:
    return Tensor(F32, (n, 2, 1, 1), name=name, flags=INPUT)


def why(compiled: Compiled, t: Tensor) -> tuple[str, str]:
    w = compiled.why[t]
    return compiled.devices[w.backend].name, w.cause


def names(compiled: Compiled) -> list[tuple[str, list[str]]]:
    return [(compiled.devices[s.backend].name, [t.name for t in s.nodes]) for s in compiled.splits]


def chain(m: Machine, *homes: NullDevice) -> tuple[Tensor, list[Tensor]]:
    x = user_input()
    y, made = x, []
    for i, home in enumerate(homes):
        y = named(f"y{i}", make("mul_mat", m.weight(f"w{i}", home), y))
        made.append(y)
    return x, made
