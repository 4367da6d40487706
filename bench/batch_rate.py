"""Tokens per second of `llamapy batch` with one sequence and with several, taking turns.

    python bench/batch_rate.py -m MODEL [--np 1,8] [--lines 64] [--prompt 64] [--new 64] [--mixed]

Prompts are random ids and share nothing. Prompt tokens and generated ones count, as in
llama-batched-bench; `python` is the share of the time that is neither spent in graphs nor on
weights. The ratio is the median of those within a round. `--mixed`: lengths from a quarter of those
given to all of them.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def lines(a: argparse.Namespace, n: int) -> str:
    rng = random.Random(7)

    def size(most: int) -> int:
        return rng.randint(most // 4, most) if a.mixed else most

    return "".join(
        json.dumps({"prompt": [rng.randrange(100, 30000) for _ in range(size(a.prompt))],
                    "n": size(a.new)}) + "\n"
        for _ in range(n)
    )  # fmt: skip


def run(a: argparse.Namespace, n_parallel: int, folder: Path) -> Any:
    """The job's summary. One by one a quarter of the lines will do."""
    n_lines = a.lines if n_parallel > 1 else max(a.lines // 4, 1)
    (folder / "in").write_text(lines(a, n_lines))
    for path in folder.glob("out*"):
        path.unlink()
    words = ["batch", str(folder / "in"), "-o", str(folder / "out"), "-m", a.model, "--json"]
    words += ["-np", str(n_parallel), "-t", str(a.threads), "--ignore-eos"]
    done = subprocess.run([sys.executable, "-m", "llamapy", *words], stdout=subprocess.PIPE)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--np", default="1,8")
    p.add_argument("--lines", type=int, default=64)
    p.add_argument("--prompt", type=int, default=64)
    p.add_argument("--new", type=int, default=64)
    p.add_argument("--mixed", action="store_true")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("-t", "--threads", type=int, default=2)
    a = p.parse_args()
    counts = [int(x) for x in a.np.split(",")]
    rates: dict[int, list[float]] = {n: [] for n in counts}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            for n in counts:
                got = run(a, n, Path(folder))
                t, graph = got["timings"], got["graph"]
                rates[n].append(t["tokens_per_s"])
                print(
                    f"-np {n}: {t['tokens_per_s']:7.1f} tokens/s, python"
                    f" {t['python_ms'] / t['total_ms']:.1%}, graphs {graph['built']} built"
                    f" {graph['reused']} reused",
                    flush=True,
                )
    first = min(counts)
    for n, rate in rates.items():
        ratio = statistics.median(x / y for x, y in zip(rate, rates[first], strict=True))
        print(f"-np {n}: median {statistics.median(rate):.0f}, {ratio:.2f} times -np {first}")


if __name__ == "__main__":
    main()
