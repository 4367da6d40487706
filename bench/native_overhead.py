"""What running a plan costs apart from the kernels: per call, per node and per stage.

    python bench/native_overhead.py [--nodes N] [--repeat N]

Nodes are `add` on 16 floats, whose own time (the first figure per node, on one thread) is part of
every figure. "pairs": stages of two one-task nodes, so that each stage is shared between threads;
"chain": stages of one task, which one thread runs through; "flat": one stage of all nodes. The
median of the repeats is shown, in nanoseconds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np

from llamapy.ffi.lib import best_kernel
from llamapy.ffi.pool import Pool, prepare
from llamapy.ffi.record import SYNC, empty_nodes

WIDTH = 16


def plan(n: int, per_stage: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`n` nodes, each with a destination of its own. Returns (nodes, slots, memory)."""
    memory = np.zeros((n + 2, WIDTH), np.float32)
    nodes = empty_nodes(n)
    kernel = best_kernel("add", "f32", "f32")
    assert kernel is not None
    row = memory.strides[0]
    for rec in (nodes["dst"], nodes["src"][:, 0], nodes["src"][:, 1]):
        rec["slot"], rec["ne"], rec["nb"] = 0, (WIDTH, 1, 1, 1), (4, row, row, row)
    nodes["kernel"], nodes["n_src"] = kernel, 2
    nodes["dst"]["offs"] = (np.arange(n, dtype=np.uint64) + np.uint64(2)) * np.uint64(row)
    nodes["src"]["offs"][:, 1] = row
    nodes["flags"] = np.where(np.arange(n) % per_stage == 0, SYNC, 0)
    return nodes, np.array([memory.ctypes.data], np.uint64), memory


def median_ns(pool: Pool, n: int, per_stage: int, n_threads: int, repeat: int) -> float:
    nodes, slots, _memory = plan(n, per_stage)
    scratch = prepare(nodes, n_threads)
    times = []
    for _ in range(repeat + 3):
        start = time.perf_counter_ns()
        pool.run(nodes, slots, scratch, n_threads)
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times[3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=300)
    args = parser.parse_args()
    n, repeat = args.nodes, args.repeat
    with Pool(2) as pool:
        print(f"{n} nodes of {WIDTH} floats, median of {repeat} runs")
        for n_threads in (1, 2):
            empty = median_ns(pool, 0, 1, n_threads, repeat)
            flat = median_ns(pool, n, n, n_threads, repeat)
            chain = median_ns(pool, n, 1, n_threads, repeat)
            pairs = median_ns(pool, n, 2, n_threads, repeat)
            print(
                f"{n_threads} threads: empty call {empty:7.0f} ns"
                f"   flat {flat / n:6.1f} ns/node"
                f"   chain {chain / n:6.1f} ns/stage"
                f"   pairs {pairs / (n / 2):6.1f} ns/stage"
            )


if __name__ == "__main__":
    main()
