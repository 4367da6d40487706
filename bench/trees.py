"""A step of generation in two or more source trees, or settings, by turns: shows half a percent.

    python bench/trees.py MODEL|SHAPE[/LAYERS]:TYPE TREE[,NAME=VALUE...] TREE... [--rounds N]

`-np N`: of N sequences with 64 tokens and more each; `-d N`: of one with N; `-p N`: not a step but
a prompt of N tokens.

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
from collections.abc import Callable
from typing import Any

import numpy as np

if "--serve" in sys.argv:  # the tree's own modules
    sys.path.insert(0, os.getcwd())
    from bench.busy import open_engine
    from llamapy.runtime.batch import Batch

STEPS = 6  # of a turn, after one that brings the caches back
N_CTX = 600  # of a sequence, beside its depth
FIRST, LAST = 64, 192  # positions of several sequences


def steps_of(ctx: Any, ids: Any, n: int, depth: int) -> Callable[[], object]:
    """One call: the next token of each of n sequences."""
    if n == 1:
        ctx.decode(ids[: depth + 1])

        def one() -> None:
            at = ctx.n_past()
            if at > len(ids) - 2 * STEPS:
                ctx.seq_rm(0, at := depth + 10)
            ctx.decode(ids[at : at + 1], copy=False)

        return one
    seqs, want = tuple((s,) for s in range(n)), np.ones(n, np.bool_)
    for s in range(n):
        ctx.decode(ids[s : s + FIRST], seq_id=s)
    at = FIRST

    def several() -> None:
        nonlocal at
        if at == LAST:
            for s in range(n):
                ctx.seq_rm(s, FIRST)
            at = FIRST
        ctx.decode_batch(Batch(ids[at : at + n], np.full(n, at, np.int32), seqs, want))
        at += 1

    return several


def prompts_of(ctx: Any, ids: Any, n: int) -> Callable[[], object]:
    def prompt() -> None:
        ctx.clear()
        ctx.decode(ids[:n])

    return prompt


def serve(a: argparse.Namespace) -> None:
    """In a tree: for every line, microseconds a step."""
    with open_engine(a.model) as engine:
        engine.will_generate(1 << 20)
        n_ctx = N_CTX + a.d
        ctx = engine.context(n_ctx=n_ctx * a.np, n_seq_max=a.np, n_threads=a.threads)
        ids = np.random.default_rng(0).integers(0, ctx.hp.n_vocab, n_ctx, dtype=np.int32)
        step = prompts_of(ctx, ids, a.p) if a.p else steps_of(ctx, ids, a.np, a.d)
        n_steps = 1 if a.p else STEPS
        for _ in range(2 if a.p else 10):
            step()
        print("ready", flush=True)
        for _ in sys.stdin:
            step()
            start = time.perf_counter()
            for _ in range(n_steps):
                step()
            print((time.perf_counter() - start) / n_steps * 1e6, flush=True)


class Tree:
    def __init__(self, spec: str, a: argparse.Namespace) -> None:
        self.name, (folder, *settings) = spec, spec.split(",")
        words = [os.path.abspath(__file__), a.model, "--serve", "-t", str(a.threads)]
        words += ["-np", str(a.np), "-p", str(a.p), "-d", str(a.d)]
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
    p.add_argument("-np", type=int, default=1)
    p.add_argument("-d", type=int, default=0)
    p.add_argument("-p", type=int, default=0)
    p.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.serve:
        serve(a)
        return
    trees = [Tree(spec, a) for spec in a.trees]
    for i in range(a.rounds):
        for tree in trees if i % 2 else reversed(trees):
            tree.turn()
    for tree in trees:
        ratio = statistics.median(x / y for x, y in zip(tree.took, trees[0].took, strict=True))
        print(f"{tree.name}: {statistics.median(tree.took):.1f} us a step, ratio {ratio:.4f}")
        tree.close()


if __name__ == "__main__":
    main()
