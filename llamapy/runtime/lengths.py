"""How long the rows of a weight are at most: what lets a product be left out where only its highest
elements matter (native/kernels/matmul/highest_sum_scalar.c)."""

from __future__ import annotations

import numpy as np

from llamapy.base.types import F32, I32
from llamapy.devices.cpu import CpuDevice
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import make
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, PARAM, Tensor
from llamapy.kv.api import Floats

# Of the formats without a minimum, whose products have no terms longer than row times column.
TYPES = frozenset(
    ("q4_0", "q5_0", "q8_0", "q3_K", "q6_K", "iq4_nl", "iq4_xs", "mxfp4", "nvfp4")
)  # fmt: skip
AT_ONCE = 512  # rows: in f32 they stay in a second-level cache
# For the roundings of a product and of the sum of squares; and for squares that are too small to
# be seen, each of them below 2^-126.
ROOM, LEAST = 1.02, 1e-16


def may_measure(w: Tensor) -> bool:
    host = w.buffer is not None and w.buffer.type.host
    return host and w.type.name in TYPES and w.n_rows == w.ne[1] and w.ne[0] < 1 << 16


def measure(w: Tensor, device: CpuDevice) -> None:
    """Set `w.lengths`, in memory of its own."""
    n_rows = w.ne[1]
    out = Tensor(F32, (n_rows, 1, 1, 1), name=f"{w.name} (lengths)", flags=PARAM)
    out.buffer = device.alloc(device.default_buft, out.n_bytes, "weights")
    n = min(AT_ONCE, n_rows)
    ids = Tensor(I32, (n, 1, 1, 1), name="rows", flags=INPUT)
    squares = make("sum_rows", make("sqr", make("get_rows", w, ids)))
    found = make("scale", make("sqrt", squares), scale=ROOM, bias=LEAST)
    found.flags |= OUTPUT
    graph = CGraph()
    graph.build_forward_expand(found)
    sched, longest = Scheduler([device]), 0.0
    try:
        compiled = sched.compile(graph)
        (to, to_offset), (at, at_offset) = ids.home(), found.home()
        for first in range(0, n_rows, n):
            rows = np.arange(first, first + n, dtype=np.int32).clip(max=n_rows - 1)
            to.write(to_offset, rows)
            compiled.run()
            lengths: Floats = np.frombuffer(at.read(at_offset, n * 4), np.float32)
            out.buffer.write(first * 4, lengths[: n_rows - first])
            longest = float(np.maximum(longest, lengths.max()))  # or NaN
    finally:
        sched.free()
    w.lengths = out, longest
