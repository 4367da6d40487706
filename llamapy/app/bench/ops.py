"""Where the time of a graph goes: each record of its plan run alone, sums by kernel.

Records run in their order with the inputs of a real step, so every one sees the data it would see.
Alone they cost a call each and share no stage, so the sum is more than the whole takes; what a call
costs is measured and taken off.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from llamapy.base.types import BY_ID
from llamapy.devices.cpu.device import CpuProgram
from llamapy.ffi.lib import load
from llamapy.graph.compiled import Compiled
from llamapy.runtime.batch import single, split_simple
from llamapy.runtime.context import Context

PASSES = 5


@dataclass(frozen=True, slots=True)
class OpTime:
    """All records of one kernel in one graph. `n_bytes` of weights and `n_ops` for products."""

    kernel: str
    count: int
    ns: float
    n_bytes: int
    n_ops: int


@dataclass(frozen=True, slots=True)
class OpTable:
    """`whole_ns`: the graph as it usually runs; `rows`: the slowest kernel first."""

    graph: str
    whole_ns: float
    rows: list[OpTime]

    @property
    def sum_ns(self) -> float:
        return sum(row.ns for row in self.rows)


def op_times(ctx: Context, n_tokens: int, *, depth: int = 0, passes: int = PASSES) -> OpTable:
    """Time one ubatch of `n_tokens` after `depth` tokens. The context is cleared before."""
    rng = np.random.default_rng(0)
    before = rng.integers(0, ctx.hp.n_vocab, depth, dtype=np.int32)
    ids = rng.integers(0, ctx.hp.n_vocab, n_tokens, dtype=np.int32)
    ctx.clear()
    whole: list[float] = []
    taken: list[list[float]] = []
    records: list[Any] = []
    for i in range(2 * passes):
        if depth and ctx.n_past() == 0:
            ctx.decode(before, logits="none")
        (ubatch,) = split_simple(single(ids, depth, 0, "last"), n_tokens)
        watch = _Watch(alone=i % 2 == 1)
        ctx.process_ubatch(ubatch, watch.run)
        if not (depth and ctx.seq_rm(0, depth)):
            ctx.clear()
        if watch.alone:
            records = watch.records
            taken.append(watch.ns)
        else:
            whole.append(watch.whole_ns)
    name = "decode" if n_tokens == 1 else f"prompt of {n_tokens}"
    best = np.array(taken).min(axis=0)
    return OpTable(name + (f" @ d{depth}" if depth else ""), min(whole), by_kernel(records, best))


class _Watch:
    """Runs a compiled graph whole, or record by record."""

    def __init__(self, *, alone: bool) -> None:
        self.alone = alone
        self.whole_ns = 0.0
        self.ns: list[float] = []
        self.records: list[Any] = []

    def run(self, compiled: Compiled) -> None:
        if not self.alone:
            start = time.perf_counter_ns()
            compiled.run()
            self.whole_ns = float(time.perf_counter_ns() - start)
            return
        for program in compiled.programs[0]:
            if isinstance(program, CpuProgram):
                self._each(program)
            else:
                program.run()

    def _each(self, program: CpuProgram) -> None:
        (_, nothing), *records = program.records()
        call_ns = _call_ns(nothing)
        for record, run in records:
            start = time.perf_counter_ns()
            run()
            took = time.perf_counter_ns() - start
            self.records.append(record[0])
            self.ns.append(max(took - call_ns, 0.0))


def _call_ns(nothing: Callable[[], None]) -> float:
    """What a run costs that has no records."""
    times = []
    for _ in range(20):
        start = time.perf_counter_ns()
        nothing()
        times.append(time.perf_counter_ns() - start)
    return float(min(times))


def by_kernel(records: list[Any], ns: Any) -> list[OpTime]:
    """Sums over records of the same kernel, the slowest first."""
    rows: dict[str, OpTime] = {}
    for record, took in zip(records, ns, strict=True):
        name = str(load().kernels[int(record["kernel"])])
        n_bytes, n_ops = _product(name, record)
        old = rows.get(name, OpTime(name, 0, 0.0, 0, 0))
        rows[name] = OpTime(
            name, old.count + 1, old.ns + float(took), old.n_bytes + n_bytes, old.n_ops + n_ops
        )
    return sorted(rows.values(), key=lambda row: -row.ns)


def _product(name: str, record: Any) -> tuple[int, int]:
    """Bytes of weights and operations (a multiply-add is two) of a matrix product, else zeros. Of
    experts: the most that columns as many can want."""
    if not name.startswith(("mul_mat-", "mul_mat_id-")):
        return 0, 0
    w, dst = record["src"][0], record["dst"]
    k, m, n_matrix = (int(n) for n in w["ne"][:3])
    n_col = int(dst["ne"][1] * dst["ne"][2])
    if name.startswith("mul_mat-"):
        n_matrix, n_col = 1, int(dst["ne"][1])
    n_bytes = BY_ID[int(w["type"])].row_bytes(k) * m * min(n_matrix, n_col)
    return n_bytes, 2 * k * m * n_col
