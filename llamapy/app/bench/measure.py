"""Running the tests: the depth filled, the clock on the prompt and on the generation.

A repetition is one prompt of random tokens in batches, the logits of each batch's last token wanted
and no other, then random tokens one at a time. Nothing is sampled. Repetitions of all tests of a
model take turns, so that a slow minute of the machine is everybody's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from llamapy.app.bench.cost import slices
from llamapy.app.bench.params import BatchedCase, Case
from llamapy.app.bench.stats import agree, steady
from llamapy.base.memory import available_bytes
from llamapy.runtime.context import Context

Tick = Callable[[int, int], None]  # repetitions done, of how many
Look = Callable[[int], float]  # bytes per second that so many threads can read now
AnyCase = TypeVar("AnyCase", Case, BatchedCase)
WARM_UPS = 4  # runs before the first repetition, unless two in succession agree earlier
WARM_UP_S = 10.0  # no third one after so much time
WARM_UP_GEN = 16  # tokens that a warm-up generates at most


@dataclass(slots=True)
class Samples(Generic[AnyCase]):
    """What one test gave: nanoseconds per repetition, and graphs built and run again in them."""

    case: AnyCase
    ns: list[int] = field(default_factory=list)
    prompt_ns: list[int] = field(default_factory=list)  # of `ns`, the prompts' share
    warm_up_ns: list[int] = field(default_factory=list)
    n_built: int = 0
    n_reused: int = 0
    refilled: int = 0  # repetitions for which the depth had to be computed anew
    loaded: int = 0  # those for which it came from a saved state
    started_at: float = 0.0  # seconds since the epoch
    reads: list[float] = field(default_factory=list)  # per repetition: the looks around it, mean

    def whole(self) -> Samples[AnyCase]:
        """Without what an interrupt has left half said."""
        del self.ns[len(self.prompt_ns) :]
        return self

    @property
    def warmed(self) -> bool | None:
        """Whether the last two warm-ups took the same time; None without warm-ups."""
        return agree(self.warm_up_ns) if self.warm_up_ns else None


class Depths:
    """What sequences held at the depths of tests, saved: whichever test comes first computes it,
    and every other one with the same types of cache loads it, to the same bits."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = cases
        self._states: dict[tuple[int, str, str], bytes] = {}

    def get(self, case: Case) -> bytes | None:
        return self._states.get(_depth_key(case))

    def keep(self, case: Case, ctx: Context) -> None:
        """Save what `ctx` holds, where it may be asked for (by another test, or by this one since
        its memory does not go back) and half of the memory available is enough."""
        shared = sum(_depth_key(c) == _depth_key(case) for c in self._cases) > 1
        room = available_bytes()
        fits = room is None or ctx.memory.n_bytes <= room // 2
        if fits and (shared or forgets(ctx)):
            self._states[_depth_key(case)] = ctx.state_save()


def _depth_key(case: Case) -> tuple[int, str, str]:
    return case.n_depth, case.type_k, case.type_v


def forgets(ctx: Context) -> bool:
    """Whether later tokens may take what a sequence needs to go back: windows, states."""
    return ctx.memory.cut != "anywhere" or any(ctx.arch.cache(ctx.hp).is_swa)


class Timed(Generic[AnyCase]):
    """One test on a context of its own: what all kinds of tests share."""

    def __init__(self, model: Any, case: AnyCase, n_seq_max: int = 1, seed: int = 0) -> None:
        self.case: AnyCase = case
        self.samples: Samples[AnyCase] = Samples(case, started_at=time.time())
        self._rng = np.random.default_rng(seed)
        self._bos = _bos(model.gguf)
        self.ctx: Context = model.context(
            n_ctx=case.n_ctx,
            n_batch=case.n_batch,
            n_ubatch=case.n_ubatch,
            n_seq_max=n_seq_max,
            type_k=case.type_k,
            type_v=case.type_v,
            n_threads=case.n_threads,
        )

    def warm_up(self) -> None:
        """Prompts and a few tokens, so that pages are there, threads have started and clocks have
        settled: until two runs in succession take the same time."""
        start, ns = time.monotonic(), self.samples.warm_up_ns
        while len(ns) < WARM_UPS and not agree(ns):
            if len(ns) >= 2 and time.monotonic() - start > WARM_UP_S:
                break
            self.ctx.clear()
            ns.append(sum(self._once(min(self.case.n_gen, WARM_UP_GEN))))
        self.ctx.clear()

    def repeat(self) -> None:
        """One repetition, on the clock; what has to be there before it is not."""
        counters = self.ctx.counters
        self._prepare()
        built, reused = counters.built, counters.reused
        prompt, gen = self._once(self.case.n_gen)
        self.samples.ns.append(prompt + gen)
        self.samples.prompt_ns.append(prompt)
        self.samples.n_built += counters.built - built
        self.samples.n_reused += counters.reused - reused

    def _once(self, n_gen: int) -> tuple[int, int]:
        """Nanoseconds of the prompt and of `n_gen` tokens after it."""
        start = time.perf_counter_ns()
        if self.case.n_prompt:
            self._prompt(self.case.n_prompt)
        middle = time.perf_counter_ns()
        if n_gen:
            self._generate(n_gen)
        return middle - start, time.perf_counter_ns() - middle

    def _prepare(self) -> None:
        self.ctx.clear()

    def _prompt(self, n: int) -> None:
        raise NotImplementedError

    def _generate(self, n: int) -> None:
        raise NotImplementedError

    def _random(self, n: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        return self._rng.integers(0, self.ctx.hp.n_vocab, n, dtype=np.int32)

    def close(self) -> None:
        self.ctx.close()


class Runner(Timed[Case]):
    """A test of one sequence, with `n_depth` tokens before it."""

    def __init__(self, model: Any, case: Case, depths: Depths | None = None) -> None:
        super().__init__(model, case)
        self._depths = depths or Depths([case])

    def _prepare(self) -> None:
        """Back to `n_depth` tokens: drop what came after them; where the memory has forgotten some
        or has none yet, load them as saved, or compute them."""
        depth, ctx = self.case.n_depth, self.ctx
        if depth and ctx.n_past() >= depth and ctx.seq_rm(0, depth):
            return
        ctx.clear()
        if not depth:
            return
        saved = self._depths.get(self.case)
        if saved is not None:
            ctx.state_load(saved)
            self.samples.loaded += 1
            return
        self._prompt(depth)
        self._depths.keep(self.case, ctx)
        self.samples.refilled += 1

    def _prompt(self, n: int) -> None:
        ids = self._random(n)
        if self._bos is not None and self.ctx.n_past() == 0:
            ids[0] = self._bos
        for at, end in slices(n, self.case.n_batch):
            self.ctx.decode(ids[at:end], copy=False)

    def _generate(self, n: int) -> None:
        ids = self._random(n)
        for i in range(n):
            self.ctx.decode(ids[i : i + 1], copy=False)


def _bos(gguf: Any) -> int | None:
    """The token that texts begin with, where the file says that they do."""
    key = "tokenizer.ggml.bos_token_id"
    if key in gguf.keys and gguf.get_bool("tokenizer.ggml.add_bos_token", False):
        return int(gguf.get_int(key))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How often tests run. `until_steady`: go on for at most so many seconds with those that are
    not steady after `repetitions`. `look`: taken between repetitions, before all and after all."""

    repetitions: int = 5
    warm_up: bool = True
    interleave: bool = True
    until_steady: float = 0.0
    look: Look | None = None


def measure(
    cases: Sequence[AnyCase],
    runner: Callable[[AnyCase], Timed[AnyCase]],
    how: How,
    out: list[Samples[AnyCase]],
    tick: Tick = lambda done, total: None,
) -> None:
    """Run all tests of one open model. Interleaved, every test keeps a context open until the end;
    otherwise there is one at a time. Their samples are appended to `out`; whatever ends this early,
    those that there are by then."""
    turns = _Turns(how, len(cases) * how.repetitions, tick)
    for group in [cases] if how.interleave else [[case] for case in cases]:
        runners: list[Timed[AnyCase]] = []
        try:
            for case in group:
                runners.append(runner(case))
                if how.warm_up:
                    with runners[-1].ctx.interruptible():
                        runners[-1].warm_up()
            turns.take(runners)
        finally:
            out += [r.samples.whole() for r in runners if r.samples.ns]
            for r in runners:
                r.close()


@dataclass(slots=True)
class _Turns:
    """Repetitions of several tests, one after the other."""

    how: How
    total: int
    tick: Tick
    done: int = 0
    seen: dict[int, float] = field(default_factory=dict)  # the last look, by number of threads

    def take(self, runners: Sequence[Timed[Any]]) -> None:
        for _ in range(self.how.repetitions):
            for runner in runners:
                self._one(runner)
        end = time.monotonic() + self.how.until_steady
        while time.monotonic() < end:
            shaken = [r for r in runners if not steady(r.samples.ns)]
            if not shaken:
                break
            self.total += len(shaken)
            for runner in shaken:
                self._one(runner)
        self.tick(self.done, self.total)

    def _one(self, runner: Timed[Any]) -> None:
        self.tick(self.done, self.total)
        look, n_threads = self.how.look, runner.case.n_threads
        if look and n_threads not in self.seen:
            self.seen = {n_threads: look(n_threads)}
        with runner.ctx.interruptible():
            runner.repeat()
        self.done += 1
        if look:
            before, after = self.seen[n_threads], look(n_threads)
            runner.samples.reads.append((before + after) / 2)
            self.seen = {n_threads: after}
