"""Log-probabilities of single tokens, from rows of logits; the softmax is written nowhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llamapy.ffi.lib import load

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Workers:
    """Threads that rows are divided over. What is said of a row is the same whichever does it."""

    pool: Executor | None = None
    n: int = 1

    def divide(self, n_rows: int, part: Callable[[int, int], None]) -> None:
        """`part(first, end)` for all rows."""
        if self.pool is None or self.n == 1:
            part(0, n_rows)
            return
        cuts = [n_rows * i // self.n for i in range(self.n + 1)]
        for done in [self.pool.submit(part, *c) for c in zip(cuts[:-1], cuts[1:], strict=True)]:
            done.result()


ALONE = Workers()


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Logits `x` [n, n_vocab] with their maxima, the sums of exp(x - maximum) and the logarithms of
    those. A sum and its logarithm are NaN where the row holds NaN or +Inf."""

    x: Floats
    top: Floats  # [n]
    sum: npt.NDArray[np.float64]  # [n]
    log_sum: list[float]

    @classmethod
    def of(cls, rows: Floats, workers: Workers = ALONE) -> Rows:
        x = np.ascontiguousarray(rows, np.float32)
        n, n_vocab = x.shape
        total, top = np.empty(n, np.float64), np.empty(n, np.float32)
        call = load().dll.lp_softmax_sums

        def part(first: int, end: int) -> None:
            r, s, m = x[first:end], total[first:end], top[first:end]
            call(r.ctypes.data, n_vocab, end - first, s.ctypes.data, m.ctypes.data)

        workers.divide(n, part)
        return cls(x, top, total, [math.log(s) if s == s else math.nan for s in total.tolist()])

    def negative_log(self, rows: Sequence[int], targets: Ints) -> list[float]:
        """`-log softmax(x)[rows[i], targets[i]]`, float64. NaN where the row is no numbers."""
        said, top = self.x[rows, targets].tolist(), self.top[rows].tolist()
        return [self.log_sum[r] + (m - x) for r, m, x in zip(rows, top, said, strict=True)]

    def tops(self) -> Ints:
        """The most likely token of each row, the first of equal ones."""
        out = np.empty(len(self.x), np.int32)
        n, n_vocab = self.x.shape
        at = self.x.ctypes.data, n_vocab, n, self.top.ctypes.data, out.ctypes.data
        load().dll.lp_row_tops(*at)
        return out


def negative_log(rows: Floats, targets: Ints, workers: Workers = ALONE) -> list[float]:
    """`-log softmax(rows)[i, targets[i]]` of each row, float64. NaN where the row holds NaN or
    +Inf."""
    return Rows.of(rows, workers).negative_log(range(len(rows)), targets)
