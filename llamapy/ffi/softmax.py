"""Log-probabilities of single tokens, from rows of logits; the softmax is written nowhere."""

from __future__ import annotations

import math
from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt

from llamapy.ffi.lib import load

Floats = npt.NDArray[np.float32]


def sums(rows: Floats, pool: Executor | None = None, n_threads: int = 1) -> tuple[list[float], ...]:
    """Of rows `[n, n_vocab]`: the sums of exp(x - max) and the maxima. Rows are divided over
    `pool`; a row's result is the same wherever it is computed, and its sum NaN where it holds NaN
    or +Inf."""
    rows = np.ascontiguousarray(rows, np.float32)
    n, n_vocab = rows.shape
    total, top = np.empty(n, np.float64), np.empty(n, np.float32)
    call = load().dll.lp_softmax_sums

    def part(first: int, end: int) -> None:
        x, s, m = rows[first:end], total[first:end], top[first:end]
        call(x.ctypes.data, n_vocab, end - first, s.ctypes.data, m.ctypes.data)

    cuts = [n * i // n_threads for i in range(n_threads + 1)]
    if pool is None or n_threads == 1:
        part(0, n)
    else:
        for done in [pool.submit(part, *c) for c in zip(cuts[:-1], cuts[1:], strict=True)]:
            done.result()
    return total.tolist(), top.tolist()


def negative_log(
    rows: Floats, targets: npt.NDArray[np.int32], pool: Executor | None = None, n_threads: int = 1
) -> list[float]:
    """`-log softmax(rows)[i, targets[i]]` of each row, float64. NaN where the row holds NaN or
    +Inf."""
    total, top = sums(rows, pool, n_threads)
    said = rows[np.arange(len(rows)), targets].tolist()
    return [
        math.log(s) + (m - x) if s == s else math.nan
        for s, m, x in zip(total, top, said, strict=True)
    ]
