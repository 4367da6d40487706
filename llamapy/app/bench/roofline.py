"""What this machine can do at most: bytes read, whole-number and float multiply-adds per second.

The probes are native and run on as many threads as the tests. The best stretch counts, since other
processes can only slow a probe down: of reading, which threads share, the best that they did
together for about as long as a token takes; of multiply-adds, which each core has for itself, the
sum of each thread's best few milliseconds. A repetition of a test, which is slowed down as well, is
held against what reading around it came to in all.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from llamapy.ffi.lib import FEATURES, allowed, load

READ_BYTES = 256 << 20  # more than caches hold
PART_BYTES = 4 << 20  # of one call
WINDOW_S = 0.004
READ_WINDOW_S = 0.02
LOOK_S = 0.5  # at each of the three
CALL_S = 0.0004  # about how long a call computes

Log = list[tuple[float, int]]  # of one thread: times, and what was done since the time before


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Per second, of `n_threads` together. 0 where the library has no probe for this CPU."""

    n_threads: int
    read_bytes: float
    int8_ops: float
    fma_ops: float

    def best(self, other: Ceilings) -> Ceilings:
        """Of two looks at the same machine."""
        return Ceilings(
            self.n_threads,
            max(self.read_bytes, other.read_bytes),
            max(self.int8_ops, other.int8_ops),
            max(self.fma_ops, other.fma_ops),
        )


def ceilings(n_threads: int) -> Ceilings:
    """Look once, for a second and a half."""
    seconds = LOOK_S
    return Ceilings(
        n_threads,
        most_in_window(_reading(n_threads), READ_WINDOW_S),
        _peak("int8", n_threads, seconds),
        _peak("fma", n_threads, seconds),
    )


@functools.cache
def _much() -> np.ndarray:
    return np.ones(READ_BYTES, np.uint8)


def read_rate(n_threads: int) -> float:
    """Bytes per second, for a fifth of one. A machine shared with others changes: look around
    what is held against it."""
    return most_in_window(_reading(n_threads), math.inf)


def _reading(n_threads: int) -> list[Log]:
    function = load().dll.lp_probe_read
    function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_int64)
    data = _much()
    share = READ_BYTES // n_threads // PART_BYTES * PART_BYTES
    base = data.ctypes.data
    places = [0] * n_threads

    def work(i: int) -> int:
        function(base + i * share + places[i], PART_BYTES)
        places[i] = (places[i] + PART_BYTES) % share
        return PART_BYTES

    return side_by_side(work, n_threads, 0.4 * LOOK_S)


def _peak(kind: str, n_threads: int, seconds: float) -> float:
    function = getattr(load().dll, probe_name(kind, allowed()), None)
    if function is None:
        return 0.0
    function.restype, function.argtypes = ctypes.c_int64, (ctypes.c_int64,)
    rounds = 1000
    if not function(rounds):
        return 0.0
    start = time.perf_counter()
    function(rounds)
    took = max(time.perf_counter() - start, 1e-7)
    rounds = max(1, int(rounds * CALL_S / took))
    logs = side_by_side(lambda i: int(function(rounds)), n_threads, seconds)
    return sum(most_in_window([log], WINDOW_S) for log in logs)


def probe_name(kind: str, mask: int) -> str:
    """The probe of 'int8' or 'fma' for the instruction sets in `mask`: what LLAMAPY_ISA rules out
    is no ceiling. Empty when there is none."""
    if not mask:
        return ""
    best = FEATURES["vnni" if kind == "int8" else "avx512"]
    lowered = mask & FEATURES["avx2"] and not mask & best
    return f"lp_probe_{kind}_{'avx2' if lowered else 'peak'}"


def side_by_side(work: Callable[[int], int], n_threads: int, seconds: float) -> list[Log]:
    """Let threads call `work(thread)` again and again; what each got done, and when. `work` returns
    how much it did, and lets other threads run meanwhile."""
    logs: list[Log] = [[] for _ in range(n_threads)]
    gate = threading.Barrier(n_threads)

    def serve(i: int) -> None:
        gate.wait()
        now = start = time.perf_counter()
        logs[i].append((now, 0))
        while now - start < seconds:
            amount = work(i)
            now = time.perf_counter()
            logs[i].append((now, amount))

    threads = [threading.Thread(target=serve, args=(i,)) for i in range(1, n_threads)]
    for thread in threads:
        thread.start()
    serve(0)
    for thread in threads:
        thread.join()
    return logs


def most_in_window(logs: list[Log], window_s: float) -> float:
    """The highest rate of all threads together, per second, over windows in which each was at
    work; one of all the time where it was shorter."""
    begin = max(log[0][0] for log in logs)
    end = min(log[-1][0] for log in logs)
    window = min(window_s, end - begin)
    if window <= 0:
        return 0.0
    ends = np.array([t for log in logs for t, _ in log if begin + window <= t <= end] or [end])
    done = np.zeros(len(ends))
    for log in logs:
        times = np.array([t for t, _ in log])
        total = np.cumsum([float(amount) for _, amount in log])
        done += np.interp(ends, times, total) - np.interp(ends - window, times, total)
    return float(done.max() / window)
