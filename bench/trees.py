"""A step of generation in two or more source trees, or settings, by turns: shows half a percent.

    python bench/trees.py MODEL|SHAPE[/LAYERS]:TYPE TREE[,NAME=VALUE...] TREE... [--rounds N]

Every tree's library is to be built. Each gets a process of its own, which keeps the model open and
is asked for a few steps at a time, so that the machine's ups and downs are everybody's. What counts
is the ratio within a round; of the first tree only the time is printed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np

STEPS = 6  # of a turn, after one that brings the caches back
N_CTX = 600


def serve(model: str, n_threads: int) -> None:
    """In a tree: for every line, microseconds a step."""
    sys.path.insert(0, os.getcwd())
    from bench.busy import open_engine

    with open_engine(model) as engine:
        engine.will_generate(1 << 20)
        ctx = engine.context(n_ctx=N_CTX, n_threads=n_threads)
        ids = np.random.default_rng(0).integers(0, ctx.hp.n_vocab, N_CTX, dtype=np.int32)

        def step() -> None:
            at = ctx.n_past()
            ctx.decode(ids[at : at + 1], copy=False)

        for _ in range(10):
            step()
        print("ready", flush=True)
        for _ in sys.stdin:
            if ctx.n_past() > N_CTX - 2 * STEPS:
                ctx.seq_rm(0, 10)
            step()
            start = time.perf_counter()
            for _ in range(STEPS):
                step()
            print((time.perf_counter() - start) / STEPS * 1e6, flush=True)


class Tree:
    def __init__(self, spec: str, model: str, n_threads: int) -> None:
        self.name, (folder, *settings) = spec, spec.split(",")
        words = [os.path.abspath(__file__), model, "--serve", "-t", str(n_threads)]
        self._process = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=os.environ | dict(s.split("=", 1) for s in settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.took: list[float] = []
        self._answer()

    def turn(self) -> None:
        assert self._process.stdin
        print(file=self._process.stdin, flush=True)
        self.took.append(float(self._answer()))

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        return line or sys.exit(f"{self.name}: ended")

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()


def main() -> None:
    p = argparse.ArgumentParser()
    p.add_argument("model")
    p.add_argument("trees", nargs="*")
    p.add_argument("--rounds", type=int, default=300)
    p.add_argument("-t", "--threads", type=int, default=2)
    p.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.serve:
        serve(a.model, a.threads)
        return
    trees = [Tree(spec, a.model, a.threads) for spec in a.trees]
    for i in range(a.rounds):
        for tree in trees if i % 2 else reversed(trees):
            tree.turn()
    for tree in trees:
        ratio = statistics.median(x / y for x, y in zip(tree.took, trees[0].took, strict=True))
        print(f"{tree.name}: {statistics.median(tree.took):.1f} us a step, ratio {ratio:.4f}")
        tree.close()


if __name__ == "__main__":
    main()
