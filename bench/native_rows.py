"""Speed of row kernels and attention: GB/s of what is read and written, or GFLOP/s.

    python bench/native_rows.py [-t THREADS] [--isa avx512] [FAMILY ...]

Each line is the best of some runs of one node of a real shape, cut and run as in a plan.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "native"))
from cases_attn import Attention, causal
from cases_rows import rope_params
from harness import Case, operand, pool, result, row_of

from llamapy.ffi.lib import KernelRow, load
from llamapy.ffi.pool import prepare
from llamapy.ffi.record import empty_nodes


@dataclass
class Job:
    name: str
    family: str
    types: tuple[str, str]
    case: Case
    work: float  # bytes, or floating point operations
    unit: str


def _rows(rng: np.random.Generator, n_rows: int, n: int) -> np.ndarray:
    return rng.standard_normal((n_rows, n)).astype(np.float32)


def row_jobs(rng: np.random.Generator) -> Iterator[Job]:
    for n_rows, n in ((1, 2048), (512, 2048)):
        x, w = operand(_rows(rng, n_rows, n)), operand(_rows(rng, 1, n)[0])
        case = Case([x, w], result("f32", x.ne), fp=(1e-5,))
        yield Job(f"{n_rows}x{n}", "rms_norm", ("f32", "f32"), case, n_rows * n * 8, "GB/s")
        case = Case([x, w], result("x8", x.ne), fp=(1e-5,))
        yield Job(f"{n_rows}x{n}", "rms_norm_quant", ("x8", "f32"), case, n_rows * n * 5.25, "GB/s")
    for n_rows, n in ((1, 8192), (512, 8192)):
        gate, up = operand(_rows(rng, n_rows, n)), operand(_rows(rng, n_rows, n))
        case = Case([gate, up], result("x8", gate.ne))
        for family in ("swiglu_quant", "geglu_quant"):
            yield Job(f"{n_rows}x{n}", family, ("x8", "f32"), case, n_rows * n * 9.25, "GB/s")
    for n_tokens in (1, 512):
        x = operand(rng.standard_normal((n_tokens, 32, 64)).astype(np.float32))
        pos = operand(np.arange(n_tokens, dtype=np.int32) + 1000)
        for mode in (0, 2):
            ip, fp = rope_params(64, mode)
            case = Case([x, pos], result("f32", x.ne), ip, fp)
            size = n_tokens * 32 * 64 * 8
            yield Job(f"{n_tokens}x32x64 mode {mode}", "rope", ("f32", "f32"), case, size, "GB/s")


def attention(
    rng: np.random.Generator, heads: tuple[int, int], width: int, n_tokens: int, n_past: int
) -> Attention:
    n_places = (n_past + n_tokens + 255) // 256 * 256
    kv = [rng.standard_normal((n_places, heads[1], width)).astype(np.float16) for _ in range(2)]
    idx = np.arange(n_places, dtype=np.int32)[None, :]
    q = rng.standard_normal((n_tokens, heads[0], width)).astype(np.float32)
    return Attention(
        q, kv[0], kv[1], idx, causal(n_tokens, n_past), scale=width**-0.5, types=("f16", "f16")
    )


def attention_jobs(rng: np.random.Generator) -> Iterator[Job]:
    for heads, width in (((9, 3), 64), ((32, 8), 64), ((32, 8), 128), ((4, 1), 256)):
        size = f"{heads[0]}/{heads[1]} heads of {width}"
        for n_tokens, n_past in ((512, 0), (512, 1536)):
            a = attention(rng, heads, width, n_tokens, n_past)
            pairs = n_tokens * n_past + n_tokens * (n_tokens + 1) / 2
            yield Job(
                f"{size}, {n_tokens} behind {n_past}", "flash_attn", ("kv", "kv"), a.whole(),
                pairs * heads[0] * width * 4, "GFLOP/s",
            )  # fmt: skip
        for n_past in (255, 4095):
            a = attention(rng, heads, width, 1, n_past)
            n_bytes = (n_past + 1) * heads[1] * width * 4
            for family, case in (("flash_attn", a.whole()), ("flash_attn_part", a.parts())):
                name = f"{size}, 1 behind {n_past}"
                yield Job(name, family, ("kv", "kv"), case, n_bytes, "GB/s")


def seconds(row: KernelRow, case: Case, n_threads: int) -> float:
    """Best time of one node, of a plan that repeats it to drown the call. For one thread it is the
    time the thread had a core, so that others on the machine disturb it less."""
    clock = time.thread_time if n_threads == 1 else time.perf_counter
    repeat = 1
    while True:
        nodes = empty_nodes(repeat)
        nodes["kernel"], nodes["n_src"], nodes["flags"] = row.index, len(case.srcs), 1
        nodes["ip"][:, : len(case.ip)] = case.ip
        nodes["fp"][:, : len(case.fp)] = case.fp
        memory = [o.data.copy() for o in (*case.srcs, case.dst)]
        for i, o in enumerate(case.srcs):
            _fill(nodes["src"][:, i], o, i)
        _fill(nodes["dst"], case.dst, len(case.srcs))
        slots = np.array([m.ctypes.data for m in memory], np.uint64)
        scratch = prepare(nodes, n_threads)
        best, spent = 1e9, 0.0
        while spent < 0.15:
            start = clock()
            pool(n_threads).run(nodes, slots, scratch, n_threads)
            took = clock() - start
            best, spent = min(best, took), spent + took
        if best > 3e-4 or repeat >= 1000:
            return best / repeat
        repeat = min(1000, int(repeat * 6e-4 / best) + 1)


def _fill(rec: np.ndarray, o: object, slot: int) -> None:
    rec["slot"], rec["offs"], rec["type"] = slot, o.offs, o.type.id
    rec["ne"], rec["nb"] = (*o.ne, 1, 1, 1)[:4], o.nb


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("-t", type=int, default=1)
    p.add_argument("--isa", nargs="*", default=["avx2", "avx512"])
    p.add_argument("families", nargs="*")
    args = p.parse_args()
    rng = np.random.default_rng(0)
    for job in (*row_jobs(rng), *attention_jobs(rng)):
        if args.families and job.family not in args.families:
            continue
        speeds = []
        for isa in args.isa:
            row = row_of(job.family, *job.types, isa)
            if not row.need & ~load().features:
                t = seconds(row, job.case, args.t)
                speeds.append(f"{isa} {t * 1e6:9.1f} us {job.work / t / 1e9:7.1f} {job.unit}")
        print(f"{job.family:16} {job.name:34} {'   '.join(speeds)}", flush=True)


if __name__ == "__main__":
    main()
