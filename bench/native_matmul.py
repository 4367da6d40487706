"""Matrix products against the machine's own ceilings, measured in the same run.

    python bench/native_matmul.py [--types q4_1,q8_0] [--k 2048] [--threads 1,2] [--isa avx2]

One column (generation): GB/s of weights read from memory, and the share of what plain reading gets.
Many columns (prompt): GOPS, and the share of what the best multiply-add unit does in registers.
Calls are kept short, walk through a buffer larger than the caches, and the shortest counts, so that
a busy machine disturbs the figures little.
Every product is compared with the scalar kernel on a few rows before it is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from llamapy.base.types import BY_NAME
from llamapy.ffi.lib import KernelRow, load
from llamapy.ffi.pool import Pool, prepare
from llamapy.ffi.record import empty_nodes

TYPES = (
    "q1_0,q2_0,tq1_0,tq2_0,q2_K,q3_K,q4_0,q4_1,q4_K,iq4_nl,iq4_xs,mxfp4,nvfp4,q5_0,q5_1,q5_K,q6_K,"
    "q8_0,f16,bf16,f32"
)
HALVES = {
    "q4_1": (0, 2),
    "q5_1": (0, 2),
    "q4_K": (0, 2),
    "q5_K": (0, 2),
    "q6_K": (208,),
    "q3_K": (108,),
    "iq1_m": (),
    "q2_K": (80, 82),
    "tq1_0": (52,),
    "tq2_0": (64,),
    "mxfp4": (),
    "nvfp4": (),
}
EXPONENTS = {"mxfp4": 0}
WEIGHT_BYTES = 128 << 20  # more than the last-level cache holds
RNG = np.random.default_rng(0)


class Ceilings(NamedTuple):
    read: float
    int8: float
    fma: float


def best(call: Callable[[], None], seconds: float = 0.4) -> float:
    """The shortest of as many calls as fit, three at least."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


class Team:
    """Threads that run a function together without being started anew."""

    def __init__(self, n: int) -> None:
        self.start, self.end = threading.Barrier(n), threading.Barrier(n)
        self.call: Callable[[int], object] | None = None
        self.n = n
        for i in range(1, n):
            threading.Thread(target=self._serve, args=(i,), daemon=True).start()

    def _serve(self, i: int) -> None:
        while True:
            self.start.wait()
            assert self.call is not None
            self.call(i)
            self.end.wait()

    def run(self, call: Callable[[int], object]) -> None:
        self.call = call
        if self.n > 1:
            self.start.wait()
        call(0)
        if self.n > 1:
            self.end.wait()


def read_rate(team: Team) -> float:
    """Bytes per second of reading a large buffer, 1 MiB a thread and call."""
    function = load().dll.lp_probe_read
    function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_int64)
    data = np.ones(WEIGHT_BYTES, np.uint8)
    part = 1 << 20
    at = itertools.cycle(range(0, WEIGHT_BYTES - team.n * part + 1, team.n * part))

    def call() -> None:
        start = data.ctypes.data + next(at)
        team.run(lambda i: function(start + i * part, part))

    return part * team.n / best(call)


def peak_rate(name: str, team: Team) -> float:
    """Operations per second."""
    function = getattr(load().dll, name)
    function.restype, function.argtypes = ctypes.c_int64, (ctypes.c_int64,)
    rounds, per_round = 200_000, function(1)
    took = best(lambda: team.run(lambda i: function(rounds)))
    return float(per_round * rounds * team.n / took)


def weights(type_name: str, n_bytes: int) -> np.ndarray:
    t = BY_NAME[type_name]
    n = n_bytes // t.size_bytes
    if t.block == 1:
        x = np.tile(RNG.standard_normal(1 << 16).astype(np.float32), n // (1 << 16) + 1)[:n]
        u = x.view(np.uint32) >> 16
        parts = {"f32": x, "f16": x.astype(np.float16), "bf16": u.astype(np.uint16)}
        return parts[type_name].view(np.uint8)
    blocks = np.frombuffer(RNG.bytes(n * t.size_bytes), np.uint8).reshape(n, -1).copy()
    if type_name == "iq1_m":  # the f16 0x211f, a nibble on top of each of four words
        blocks[:, 49::2] = (0xF0, 0x10, 0x10, 0x20)
    for at in HALVES.get(type_name, (0,)):
        blocks[:, at : at + 2] = np.array([0.01], np.float16).view(np.uint8)
    if type_name in EXPONENTS:
        blocks[:, EXPONENTS[type_name]] = 120
    return blocks.reshape(-1)


def activations(xtype: str, n: int, k: int) -> np.ndarray:
    if xtype == "f32":
        return RNG.standard_normal((n, k)).astype(np.float32)
    q = RNG.integers(-127, 128, (n, k)).astype(np.int8)
    d = np.full((n, k // 32), 0.01, np.float32)
    total = q.reshape(n, -1, 32).sum(2, dtype=np.int32)
    planes = [a.view(np.uint8).reshape(n, -1) for a in (q, d, total)]
    return np.ascontiguousarray(np.concatenate(planes, axis=1))


class Product:
    """Weights [k, m] with n columns, as a plan of one node; every call takes the next weights."""

    def __init__(self, row: KernelRow, w: np.ndarray, k: int, m: int, n: int) -> None:
        wt, xt = BY_NAME[row.wtype], BY_NAME[row.xtype]
        self.w, self.x = w, activations(row.xtype, n, k)
        self.out = np.zeros((n, m), np.float32)
        self.bytes = wt.row_bytes(k) * m
        self.nodes = empty_nodes(1)
        self.nodes["kernel"], self.nodes["n_src"] = row.index, 2
        node = self.nodes[0]
        for slot, (rec, t, ne) in enumerate(
            (
                (node["src"][0], wt, (k, m)),
                (node["src"][1], xt, (k, n)),
                (node["dst"], BY_NAME["f32"], (m, n)),
            )
        ):
            line = t.row_bytes(ne[0])
            rec["slot"], rec["type"], rec["ne"] = slot, t.id, (*ne, 1, 1)
            rec["nb"] = (t.size_bytes, line, line * ne[1], line * ne[1])

    def run(self, pool: Pool, n_threads: int) -> Callable[[], None]:
        scratch = prepare(self.nodes, n_threads)
        at, x, out = (a.ctypes.data for a in (self.w, self.x, self.out))
        slots = itertools.cycle(
            np.array([at + i * self.bytes, x, out], np.uint64)
            for i in range(len(self.w) // self.bytes)
        )
        return lambda: pool.run(self.nodes, next(slots), scratch, n_threads)


def check(row: KernelRow, pool: Pool, w: np.ndarray, k: int) -> None:
    scalar = next(
        r for r in load().kernels if (r.family, r.wtype, r.isa) == ("mul_mat", row.wtype, "scalar")
    )
    for n in (1, 7):
        a = Product(row, w, k, 40, n)
        b = Product(scalar, w, k, 40, n)
        b.x[:] = a.x
        a.run(pool, 1)()
        b.run(pool, 1)()
        assert (a.out == b.out).all(), f"{row} differs from its scalar twin"


def line_of(row: KernelRow, team: Team, pool: Pool, ceilings: Ceilings, a: Any) -> str:
    row_bytes = BY_NAME[row.wtype].row_bytes(a.k)
    w = weights(row.wtype, WEIGHT_BYTES // row_bytes * row_bytes)
    check(row, pool, w, a.k)
    cells = []
    for n in (int(v) for v in a.n.split(",")):
        m = a.m if n <= 16 else max(256, a.m // (n // 16) // 32 * 32)
        took = best(Product(row, w, a.k, m, n).run(pool, team.n))
        if n <= 4:
            rate = row_bytes * m / took
            cells.append(f"n={n} {rate / 1e9:5.1f} GB/s {rate / ceilings.read:4.0%}")
        else:
            rate = 2 * a.k * m * n / took
            top = ceilings.fma if row.xtype == "f32" else ceilings.int8
            cells.append(f"n={n} {rate / 1e9:4.0f} {rate / top:4.0%}")
    return f"{row.wtype:5} {row.isa:10} " + " | ".join(cells)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--types", default=TYPES)
    p.add_argument("--k", type=int, default=2048)
    p.add_argument("--m", type=int, default=2048)
    p.add_argument("--n", default="1,4,16,64,512")
    p.add_argument("--threads", default="1,2")
    p.add_argument("--isa", help="avx2 or scalar instead of the best")
    a = p.parse_args()
    usable = [r for r in load().kernels if r.family == "mul_mat" and not r.need & ~load().features]
    for n_threads in (int(t) for t in a.threads.split(",")):
        team, pool = Team(n_threads), Pool(n_threads)
        c = Ceilings(
            read_rate(team),
            peak_rate("lp_probe_int8_peak", team),
            peak_rate("lp_probe_fma_peak", team),
        )
        print(
            f"\n{n_threads} threads: read {c.read / 1e9:.1f} GB/s, int8 {c.int8 / 1e9:.0f} GOPS,",
            end="",
        )
        print(f" f32 {c.fma / 1e9:.0f} GFLOPS; weights [{a.k}, {a.m}]")
        for name in a.types.split(","):
            rows = [r for r in usable if r.wtype == name and a.isa in (None, r.isa)]
            print(line_of(rows[-1], team, pool, c, a), flush=True)


if __name__ == "__main__":
    main()
