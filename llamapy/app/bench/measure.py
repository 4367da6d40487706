"""Running the tests: the depth filled, the clock on the prompt and on the generation.

A repetition is one prompt of random tokens in batches, the logits of each batch's last token wanted
and no other, then random tokens one at a time. Nothing is sampled. Repetitions of all tests of a
model take turns, so that a slow minute of the machine is everybody's.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llamapy.app.bench.cost import slices
from llamapy.app.bench.params import Case
from llamapy.runtime.context import Context

Tick = Callable[[int, int], None]  # repetitions done, of how many
Look = Callable[[int], float]  # bytes per second that so many threads can read now


@dataclass(slots=True)
class Samples:
    """What one test gave: nanoseconds per repetition, and graphs built and run again in them."""

    case: Case
    ns: list[int] = field(default_factory=list)
    n_built: int = 0
    n_reused: int = 0
    refilled: int = 0  # repetitions for which the depth had to be computed anew
    started_at: float = 0.0  # seconds since the epoch
    reads: list[float] = field(default_factory=list)  # looks before the first and after the last


class Runner:
    """One test on a context of its own."""

    def __init__(self, model: Any, case: Case, seed: int = 0) -> None:
        self.case = case
        self.samples = Samples(case, started_at=time.time())
        self._rng = np.random.default_rng(seed)
        self._bos = _bos(model.gguf)
        self.ctx: Context = model.context(
            n_ctx=case.n_ctx,
            n_batch=case.n_batch,
            n_ubatch=case.n_ubatch,
            type_k=case.type_k,
            type_v=case.type_v,
            n_threads=case.n_threads,
        )

    def warm_up(self) -> None:
        """One prompt and one token, so that pages are there and threads have started."""
        self.ctx.clear()
        if self.case.n_prompt:
            self._prompt(self.case.n_prompt)
        if self.case.n_gen:
            self._generate(1)
        self.ctx.clear()

    def repeat(self) -> None:
        """One repetition, on the clock; filling the depth is not."""
        case, counters = self.case, self.ctx.counters
        self._restore_depth()
        built, reused = counters.built, counters.reused
        start = time.perf_counter_ns()
        if case.n_prompt:
            self._prompt(case.n_prompt)
        if case.n_gen:
            self._generate(case.n_gen)
        self.samples.ns.append(time.perf_counter_ns() - start)
        self.samples.n_built += counters.built - built
        self.samples.n_reused += counters.reused - reused

    def _restore_depth(self) -> None:
        """Back to `n_depth` tokens: drop what came after them, or compute them anew where the
        memory has forgotten some."""
        depth, ctx = self.case.n_depth, self.ctx
        if not depth:
            ctx.clear()
            return
        if ctx.n_past() >= depth and ctx.seq_rm(0, depth):
            return
        ctx.clear()
        self._prompt(depth)
        self.samples.refilled += 1

    def _prompt(self, n: int) -> None:
        ids = self._rng.integers(0, self.ctx.hp.n_vocab, n, dtype=np.int32)
        if self._bos is not None and self.ctx.n_past() == 0:
            ids[0] = self._bos
        for at, end in slices(n, self.case.n_batch):
            self.ctx.decode(ids[at:end], logits="last")

    def _generate(self, n: int) -> None:
        ids = self._rng.integers(0, self.ctx.hp.n_vocab, n, dtype=np.int32)
        for i in range(n):
            self.ctx.decode(ids[i : i + 1], logits="last")

    def close(self) -> None:
        self.ctx.close()


def _bos(gguf: Any) -> int | None:
    """The token that texts begin with, where the file says that they do."""
    key = "tokenizer.ggml.bos_token_id"
    if key in gguf.keys and gguf.get_bool("tokenizer.ggml.add_bos_token", False):
        return int(gguf.get_int(key))
    return None


def measure(
    model: Any,
    cases: Sequence[Case],
    *,
    repetitions: int,
    warm_up: bool = True,
    interleave: bool = True,
    tick: Tick = lambda done, total: None,
    look: Look | None = None,
) -> list[Samples]:
    """Run all tests of one open model (an `Engine`). Interleaved, every test keeps a context open
    until the end; otherwise there is one at a time. `look` is taken before a test's first
    repetition and after its last."""
    done, total = 0, len(cases) * repetitions
    out: list[Samples] = []
    for group in [cases] if interleave else [[case] for case in cases]:
        runners: list[Runner] = []
        try:
            for case in group:
                runners.append(Runner(model, case))
                if warm_up:
                    with runners[-1].ctx.interruptible():
                        runners[-1].warm_up()
            for turn, runner in itertools.product(range(repetitions), runners):
                tick(done, total)
                if look and turn == 0:
                    runner.samples.reads.append(look(runner.case.n_threads))
                with runner.ctx.interruptible():
                    runner.repeat()
                if look and turn == repetitions - 1:
                    runner.samples.reads.append(look(runner.case.n_threads))
                done += 1
            tick(done, total)
            out += [runner.samples for runner in runners]
        finally:
            for runner in runners:
                runner.close()
    return out
