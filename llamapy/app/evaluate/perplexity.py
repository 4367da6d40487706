"""Windows of a text through a model: what each says of its tokens, and all together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from llamapy.app.evaluate.trouble import first_without_numbers
from llamapy.app.evaluate.windows import Ints, PerplexitySettings, Windows
from llamapy.base.errors import NumericError
from llamapy.ffi.kept import Beside
from llamapy.ffi.softmax import Rows, Workers
from llamapy.runtime.batch import Batch

ROWS_BYTES = 128 << 20  # of logits at a time
Place = tuple[int, int]  # a window's number, and which of its scored predictions


@dataclass(frozen=True, slots=True)
class Chunk:
    """One window: its number, tokens scored, sums of their nll and its square (float64). With a
    base to compare with, also each token's nll and what the base says beside it."""

    index: int
    n: int
    nll: float
    nll2: float
    each: tuple[float, ...] = ()
    beside: tuple[Beside, ...] = ()

    @classmethod
    def of(cls, index: int, nll: Sequence[float], beside: tuple[Beside, ...] = ()) -> Chunk:
        """Sums are exact, rounded once."""
        sums = math.fsum(nll), math.fsum(x * x for x in nll)
        return cls(index, len(nll), *sums, tuple(nll) if beside else (), beside)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Tokens of this group of windows that went through the model so far, and their number."""

    done: int
    total: int


@dataclass(slots=True)
class Estimate:
    """What the windows say together, added up in their order."""

    n: int = 0
    nll: float = 0.0
    nll2: float = 0.0

    def add(self, chunk: Chunk) -> None:
        self.n += chunk.n
        self.nll += chunk.nll
        self.nll2 += chunk.nll2

    @property
    def ppl(self) -> float:
        mean = self.nll / self.n
        return math.exp(mean) if mean < 709 else math.inf

    @property
    def error(self) -> float | None:
        """One standard error of `ppl`; None where the variance is not positive."""
        mean = self.nll / self.n
        variance = self.nll2 / self.n - mean * mean
        if self.n < 2 or variance <= 0:
            return None
        return self.ppl * math.sqrt(variance / (self.n - 1))


class Witness(Protocol):
    """Somebody who sees every scored row besides: a base that is written, or compared with."""

    def see(
        self, rows: Rows, nll: Sequence[float], places: Sequence[Place], workers: Workers
    ) -> None: ...

    def end(self, index: int) -> tuple[Beside, ...]:
        """All rows of a window have been seen, and are numbers."""


class Perplexity:
    """Windows through a model. `seconds`: decode (the model), score (logits to sums)."""

    def __init__(
        self, model: Any, w: Windows, s: PerplexitySettings, witness: Witness | None = None
    ) -> None:
        self.model, self.w, self.s, self.witness = model, w, s, witness
        self.seconds = {"decode": 0.0, "score": 0.0}
        self.isa, self.n_threads = "", 1
        fit = max(1, s.n_batch // w.size)
        self.n_parallel = min(s.n_parallel or fit, max(1, w.n))
        self._n_rows = max(1, ROWS_BYTES // (4 * model.hparams.n_vocab))

    def run(self, start: int = 0) -> Iterator[Evaluated | Chunk]:
        """Windows from number `start` on. NumericError names the window and position of logits that
        are no numbers; those before it have been given by then."""
        s = self.s
        if start >= self.w.n:
            return
        n = self.n_parallel
        with self.model.context(**s.of_context(n_ctx=n * self.w.size, n_seq_max=n)) as ctx:
            self.isa, self.n_threads = ctx.isa, ctx.n_threads
            with (
                ThreadPoolExecutor(ctx.n_threads) as pool,
                getattr(ctx, "interruptible", nullcontext)(),
            ):
                workers = Workers(pool, ctx.n_threads)
                for at in range(start, self.w.n, self.n_parallel):
                    group = range(at, min(at + self.n_parallel, self.w.n))
                    ctx.clear()
                    yield from self._group(ctx, group, workers)

    def _group(self, ctx: Any, group: range, workers: Workers) -> Iterator[Evaluated | Chunk]:
        """Some windows together: first what is not scored, which needs no logits, then the rest, as
        many rows at a time as memory allows."""
        rows = {i: self.w.of(i) for i in group}
        spans = {i: self.w.span(i) for i in group}
        total = sum(span.n_evaluated for span in spans.values())
        unscored = [(i, p) for i, span in spans.items() for p in range(span.first)]
        self._decode(ctx, rows, unscored, False)
        yield Evaluated(len(unscored), total)
        scored = [(i, p) for i, span in spans.items() for p in range(span.first, span.n_evaluated)]
        nll: list[float] = []
        for at in range(0, len(scored), self._n_rows):
            part = scored[at : at + self._n_rows]
            logits = self._decode(ctx, rows, part, True)
            begun = time.perf_counter()
            targets = np.array([rows[i][p + 1] for i, p in part], np.int32)
            seen = Rows.of(logits, workers)
            found = seen.negative_log(range(len(part)), targets)
            if self.witness:
                places = [(i, p - spans[i].first) for i, p in part]
                self.witness.see(seen, found, places, workers)
            nll += found
            self.seconds["score"] += time.perf_counter() - begun
            del logits, seen  # before there are more
            yield Evaluated(len(unscored) + len(nll), total)
        at = 0
        for i, span in spans.items():
            yield self._chunk(ctx, i, nll[at : at + span.n_scored])
            at += span.n_scored

    def _chunk(self, ctx: Any, index: int, nll: list[float]) -> Chunk:
        for i, value in enumerate(nll):
            if not math.isfinite(value):
                at = self.w.span(index).first + i
                first = first_without_numbers(ctx, self.w.of(index)[: at + 1])
                where = f"chunk {index + 1}, position {at}{first}"
                raise NumericError(f"NaN or Inf in the logits of {where}")
        beside = self.witness.end(index) if self.witness else ()
        return Chunk.of(index, nll, beside)

    def _decode(self, ctx: Any, rows: dict[int, Ints], at: list[Place], want: bool) -> Any:
        if not at:
            return None
        begun = time.perf_counter()
        batch = Batch(
            np.array([rows[i][p] for i, p in at], np.int32),
            np.array([p for _, p in at], np.int32),
            tuple((i % self.n_parallel,) for i, _ in at),
            np.full(len(at), want, np.bool_),
        )
        out = ctx.decode_batch(batch)
        self.seconds["decode"] += time.perf_counter() - begun
        return out
