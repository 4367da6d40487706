"""A graph on one numpy device, for tests of what ops mean."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from llamapy.base.types import F32, I32, Type
from llamapy.devices.ref import RefDevice
from llamapy.devices.ref.memory import decode, encode, rows
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import make
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor

Array = npt.NDArray[np.generic]


class Net:
    """A graph on one reference device; arrays are given and returned as [.., ne1, ne0]."""

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self.device = RefDevice(dtype)
        self.given: list[tuple[Tensor, Array]] = []

    def put(self, values: object, type_: Type = F32) -> Tensor:
        a = np.asarray(values)
        shape = (*a.shape[::-1], 1, 1, 1, 1)[:4]
        t = Tensor(type_, shape, flags=INPUT, name=f"in{len(self.given)}")
        self.given.append((t, encode(a, type_)))
        return t

    def ids(self, values: object) -> Tensor:
        return self.put(np.asarray(values, np.int32), I32)

    def run(self, *outputs: Tensor) -> Array:
        for out in outputs:
            out.flags |= OUTPUT
        g = CGraph()
        g.build_forward_expand(*outputs)
        compiled = Scheduler([self.device]).compile(g)
        for t, stored in self.given:
            if t.buffer is not None:
                t.buffer.write(t.offset_bytes, np.ascontiguousarray(stored))
        compiled.run()
        return value_of(outputs[-1])


def value_of(t: Tensor) -> Array:
    return decode(rows(t), t.type, np.float64).copy()


def one(name: str, *values: object, **params: object) -> Array:
    net = Net()
    return net.run(make(name, *(net.put(v) for v in values), **params))


def rand(*shape: int, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
