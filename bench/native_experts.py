"""Products of a mixture of experts beside a dense one of as many weights read, or as many products.

    python bench/native_experts.py [--types q4_K,q8_0] [--k 2048] [--m 768] [--threads 1,2]

A token of generation reads `used` experts' weights: GB/s, beside mul_mat of one column by as many
rows. A prompt: GOPS, beside mul_mat of all experts' rows by the average number of columns. The two
take turns, and the shortest counts. Choosing (top_k_ids) is timed alone.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np
from native_matmul import activations, weights

from llamapy.base.types import BY_NAME, Type
from llamapy.ffi.lib import best_kernel
from llamapy.ffi.pool import Pool, prepare
from llamapy.ffi.record import empty_nodes

RNG = np.random.default_rng(0)
Shape = tuple[int, ...]
Call = Callable[[], None]


def call_of(
    pool: Pool, n_threads: int, kernel: int, operands: list[tuple[Type, Shape]],
    slots: list[list[np.ndarray]], ip: tuple[int, ...] = (),
) -> Call:  # fmt: skip
    """A plan of one node, dst first; every call takes the next list of slots."""
    nodes = empty_nodes(1)
    nodes["kernel"], nodes["n_src"] = kernel, len(operands) - 1
    nodes["ip"][0, : len(ip)] = ip
    for slot, (t, ne) in enumerate(operands):
        rec = nodes[0]["dst"] if slot == 0 else nodes[0]["src"][slot - 1]
        four = (*ne, 1, 1, 1)[:4]
        line = t.row_bytes(four[0])
        rec["slot"], rec["type"], rec["ne"] = slot, t.id, four
        rec["nb"] = (t.size_bytes, line, line * four[1], line * four[1] * four[2])
    scratch = prepare(nodes, n_threads)
    turns = itertools.cycle([(s, np.array([a.ctypes.data for a in s], np.uint64)) for s in slots])
    return lambda: pool.run(nodes, next(turns)[1], scratch, n_threads)


def race(*calls: Call, seconds: float = 1.0) -> list[float]:
    """The shortest run of each, taking turns."""
    times: list[list[float]] = [[] for _ in calls]
    while len(times[0]) < 3 or sum(map(sum, times)) < seconds:
        for call, took in zip(calls, times, strict=True):
            start = time.perf_counter()
            call()
            took.append(time.perf_counter() - start)
    return [min(took) for took in times]


def routes(n_expert: int, n_used: int, n_tokens: int) -> np.ndarray:
    chosen = [RNG.permutation(n_expert)[:n_used] for _ in range(n_tokens)]
    return np.array(chosen, np.int32)


def products(a: argparse.Namespace, name: str, pool: Pool, n_threads: int, n: int) -> str:
    wt, f32 = BY_NAME[name], BY_NAME["f32"]
    xtype = "x8" if wt.quantised else "f32"
    xt = BY_NAME[xtype]
    moe, dense = best_kernel("mul_mat_id", name, xtype), best_kernel("mul_mat", name, xtype)
    assert moe is not None and dense is not None
    w = weights(name, wt.row_bytes(a.k) * a.m * a.experts)
    out = np.zeros(a.m * a.used * max(n, a.experts), np.float32)
    cols = max(1, n * a.used // a.experts)
    rows = a.m * (a.used if n == 1 else a.experts)
    x, ids = activations(xtype, max(n, cols), a.k), routes(a.experts, a.used, 64 * n)
    slots = [[out, w, x, ids[i * n : (i + 1) * n]] for i in range(64)]
    shapes = [(f32, (a.m, a.used, n)), (wt, (a.k, a.m, a.experts)), (xt, (a.k, 1, n))]
    first = call_of(pool, n_threads, moe, [*shapes, (BY_NAME["i32"], (a.used, n))], slots)
    step = wt.row_bytes(a.k) * rows
    parts = [[out, w[i : i + step], x] for i in range(0, len(w) - step + 1, step)]
    flat = [(f32, (rows, cols)), (wt, (a.k, rows)), (xt, (a.k, cols))]
    second = call_of(pool, n_threads, dense, flat, parts)
    took = race(first, second)
    if n == 1:
        return " ".join(f"{step / t / 1e9:5.1f}" for t in took) + " GB/s"
    work = (2 * a.k * a.m * a.used * n, 2 * a.k * rows * cols)
    return " ".join(f"{w / t / 1e9:5.0f}" for w, t in zip(work, took, strict=True)) + " GOPS"


def choosing(a: argparse.Namespace, pool: Pool, n: int) -> str:
    kernel = best_kernel("top_k_ids", "i32", "f32")
    assert kernel is not None
    scores, out = RNG.standard_normal((n, a.experts)).astype(np.float32), np.zeros((n, a.used))
    operands = [(BY_NAME["i32"], (a.used, n)), (BY_NAME["f32"], (a.experts, n))]
    call = call_of(pool, 1, kernel, operands, [[out, scores]], (a.used, 1, 1))
    return f"{race(call, seconds=0.2)[0] / n * 1e6:.2f} us a token"


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("--types", default="q4_K,q8_0")
    p.add_argument("--k", type=int, default=2048)
    p.add_argument("--m", type=int, default=768)
    p.add_argument("--experts", type=int, default=64)
    p.add_argument("--used", type=int, default=8)
    p.add_argument("--n", default="1,4,32,512")
    p.add_argument("--threads", default="1,2")
    a = p.parse_args()
    pool = Pool(max(int(t) for t in a.threads.split(",")))
    print(f"{a.used} of {a.experts} experts [{a.k}, {a.m}]: experts, dense")
    print(f"top_k_ids: {choosing(a, pool, 512)}")
    for name, n_threads in itertools.product(a.types.split(","), a.threads.split(",")):
        tokens = [int(n) for n in a.n.split(",")]
        cells = [f"n={n} {products(a, name, pool, int(n_threads), n)}" for n in tokens]
        print(f"{name:5} {n_threads} threads " + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
