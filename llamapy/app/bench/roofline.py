"""What this machine can do at most: bytes read, whole-number and float multiply-adds per second.

The probes are native and run on as many threads as the tests; the best stretch of a twentieth of a
second counts, since another process can only slow a probe down.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from llamapy.ffi.lib import load

READ_BYTES = 256 << 20  # more than caches hold
PART_BYTES = 2 << 20  # of one call
WINDOW_S = 0.05
LOOK_S = 0.5  # at each of the three
CALL_S = 0.002  # about how long a call computes


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
        _read_rate(n_threads, seconds),
        _peak("lp_probe_int8_peak", n_threads, seconds),
        _peak("lp_probe_fma_peak", n_threads, seconds),
    )


def _read_rate(n_threads: int, seconds: float) -> float:
    function = load().dll.lp_probe_read
    function.restype, function.argtypes = ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_int64)
    data = np.ones(READ_BYTES, np.uint8)
    share = READ_BYTES // n_threads // PART_BYTES * PART_BYTES
    base = data.ctypes.data
    places = [0] * n_threads

    def work(i: int) -> int:
        function(base + i * share + places[i], PART_BYTES)
        places[i] = (places[i] + PART_BYTES) % share
        return PART_BYTES

    return best_rate(work, n_threads, seconds, WINDOW_S)


def _peak(name: str, n_threads: int, seconds: float) -> float:
    function = getattr(load().dll, name)
    function.restype, function.argtypes = ctypes.c_int64, (ctypes.c_int64,)
    rounds = 1000
    if not function(rounds):
        return 0.0
    start = time.perf_counter()
    function(rounds)
    took = max(time.perf_counter() - start, 1e-7)
    rounds = max(1, int(rounds * CALL_S / took))
    return best_rate(lambda i: int(function(rounds)), n_threads, seconds, WINDOW_S)


def best_rate(work: Callable[[int], int], n_threads: int, seconds: float, window_s: float) -> float:
    """Let threads call `work(thread)` side by side; the most that they got done together in any
    window, per second. `work` returns how much it did and lets other threads run meanwhile."""
    logs: list[list[tuple[float, int]]] = [[] for _ in range(n_threads)]
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
    return most_in_window(logs, window_s)


def most_in_window(logs: list[list[tuple[float, int]]], window_s: float) -> float:
    """`logs`: by thread, times and what was done since the time before. The highest rate over all
    windows in which every thread was at work."""
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
