"""Generation on a busy machine: tokens per second alone, and with a busy loop pinned to each CPU.

    python bench/busy.py MODEL|SHAPE[/LAYERS]:TYPE [--threads N] [--tokens N] [--repeat N]

Both take turns, so that the machine's own ups and downs are everybody's. The share that is left is
printed; half is what a fair system leaves to a program that shares every CPU with one other.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from llamapy.app.bench.shapes import parse_spec
from llamapy.app.bench.synthetic import make_files
from llamapy.loader.place_flags import PlaceFlags
from llamapy.runtime.context import Context
from llamapy.runtime.engine import Engine

LOOP = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@contextlib.contextmanager
def busy_cpus() -> Iterator[None]:
    """One busy loop pinned to each CPU that this process may use."""
    loops = [
        subprocess.Popen([sys.executable, "-c", LOOP, str(cpu)])
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    try:
        time.sleep(0.3)
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def rate(ctx: Context, n: int) -> float:
    ids = np.random.default_rng(0).integers(0, ctx.hp.n_vocab, n + 1, dtype=np.int32)
    ctx.clear()
    ctx.decode(ids[:1])
    start = time.perf_counter()
    for i in range(1, n + 1):
        ctx.decode(ids[i : i + 1])
    return n / (time.perf_counter() - start)


def open_engine(model: str) -> Engine:
    if Path(model).exists():
        return Engine.open(Path(model))
    return Engine.of_files(make_files(parse_spec(model)), PlaceFlags(), load_mode="mmap")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("model")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--repeat", type=int, default=3)
    a = p.parse_args()
    alone: list[float] = []
    busy: list[float] = []
    with open_engine(a.model) as engine:
        ctx = engine.context(n_ctx=a.tokens + 8, n_threads=a.threads)
        rate(ctx, a.tokens)
        for _ in range(a.repeat):
            alone.append(rate(ctx, a.tokens))
            with busy_cpus():
                busy.append(rate(ctx, a.tokens))
        ctx.close()
    free, shared = statistics.median(alone), statistics.median(busy)
    print(f"{a.model}: alone {free:.1f} t/s, busy {shared:.1f} t/s: {shared / free:.0%}")
    print(
        f"  alone {' '.join(f'{v:.1f}' for v in alone)}; busy {' '.join(f'{v:.1f}' for v in busy)}"
    )


if __name__ == "__main__":
    main()
