"""The native thread pool: prepares and runs plans, and names the node at fault.

A pool serves one run at a time; a second thread that calls `run` waits its turn. Only `abort` may
be called from anywhere while a run is on.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from llamapy.base.closing import Closing
from llamapy.base.errors import KernelError, LlamapyError, MemoryBudgetError
from llamapy.ffi.lib import load
from llamapy.ffi.record import NODE

FAULTS = {
    1: "no kernel for these types or shapes",
    2: "scratch space too small",
    3: "a row index outside its table",
    4: "aborted",
    5: "the plan is malformed",
    6: "a thread could not be started",
    7: "no memory for the run's tables",
}
_ABORTED, _NO_MEMORY = 4, 7
_LINE = 64


class Aborted(LlamapyError):
    """The run was ended by `abort` or Ctrl-C; what its outputs hold is undefined."""

    exit_code = 130


def _raise(status: int, node: int, names: Sequence[str] | None) -> None:
    if status == _ABORTED:
        raise Aborted("the computation was interrupted")
    fault = FAULTS.get(status, f"status {status}")
    if status == _NO_MEMORY:
        raise MemoryBudgetError(f"native run: {fault}")
    if node < 0:
        raise KernelError(f"native run: {fault}")
    name = names[node] if names is not None and node < len(names) else "unnamed"
    raise KernelError(f"node {node} ({name}): {fault}")


def _check(nodes: np.ndarray) -> None:
    if nodes.dtype != NODE or nodes.ndim != 1 or not nodes.flags.c_contiguous:
        raise KernelError(f"a plan must be a contiguous array of records, got {nodes.dtype}")


def prepare(nodes: np.ndarray, n_threads: int, names: Sequence[str] | None = None) -> int:
    """Fill `n_tasks` of records NODE[n] for `n_threads` and return the bytes of scratch that each
    thread needs. KernelError names the record that no kernel takes."""
    _check(nodes)
    scratch, fault = ctypes.c_int64(), ctypes.c_int64()
    status = load().dll.lp_prepare(
        nodes.ctypes.data, len(nodes), n_threads, ctypes.byref(scratch), ctypes.byref(fault)
    )
    if status:
        _raise(status, fault.value, names)
    return scratch.value


class Pool(Closing):
    """`n_threads` threads, the caller being one of them. A context manager; closing is final."""

    def __init__(self, n_threads: int) -> None:
        dll = load().dll
        handle = dll.lp_pool_new(n_threads)
        if not handle:
            raise MemoryBudgetError(
                f"cannot start {n_threads} threads; lower -t or the system's limits are too tight"
            )
        self.n_threads = n_threads
        self._dll = dll
        self._run = dll.lp_run
        self._handle: int | None = handle
        self._free = weakref.finalize(self, dll.lp_pool_free, handle)
        self._free.atexit = False  # a daemon thread may still be in a run; the system ends them all
        self._lock = threading.Lock()
        self._flag = ctypes.c_int32(0)
        self._flag_at = ctypes.addressof(self._flag)
        self._fault = ctypes.c_int64(-1)
        self._fault_at = ctypes.addressof(self._fault)
        self._scratch = np.empty(0, np.uint8)
        self._scratch_at = 0
        # The arrays of the last run and their addresses: numpy takes longer to tell an address
        # than the library to run a small plan. Holding the arrays keeps the addresses valid.
        self._nodes: np.ndarray | None = None
        self._nodes_at = 0
        self._slots: np.ndarray | None = None
        self._slots_at = 0

    def run(
        self,
        nodes: np.ndarray,
        slots: np.ndarray,
        scratch_bytes: int,
        n_threads: int | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Compute a prepared plan NODE[n] with `slots` u64[n_slots] the base addresses, on the
        first `n_threads` threads (all by default). `scratch_bytes` per thread, from `prepare`.
        KernelError names the node at fault; Aborted after `abort`."""
        n_threads = self.n_threads if n_threads is None else n_threads
        with self._lock:
            status = _ABORTED  # also when a signal's handler raises as the library returns
            try:
                status = self._locked_run(nodes, slots, scratch_bytes, n_threads)
            finally:
                if status == _ABORTED:
                    self._flag.value = 0
            fault = self._fault.value
        if status:
            _raise(status, fault, names)

    def _locked_run(
        self, nodes: np.ndarray, slots: np.ndarray, scratch_bytes: int, n_threads: int
    ) -> int:
        if self._handle is None:
            raise KernelError("the thread pool is closed")
        if nodes is not self._nodes:
            _check(nodes)
            self._nodes, self._nodes_at = nodes, nodes.ctypes.data
        if slots is not self._slots:
            if slots.dtype != np.uint64 or not slots.flags.c_contiguous:
                raise KernelError(f"slots must be a contiguous array of uint64, got {slots.dtype}")
            self._slots, self._slots_at = slots, slots.ctypes.data
        if n_threads * scratch_bytes > len(self._scratch) - _LINE:
            self._grow(n_threads * scratch_bytes)
        status: int = self._run(
            self._handle, self._nodes_at, len(nodes), self._slots_at, len(slots),
            self._scratch_at, scratch_bytes, n_threads, self._flag_at, self._fault_at,
        )  # fmt: skip
        return status

    def _grow(self, n_bytes: int) -> None:
        self._scratch = np.empty(n_bytes + _LINE, np.uint8)
        address = self._scratch.ctypes.data
        self._scratch_at = (address + _LINE - 1) // _LINE * _LINE

    def abort(self) -> None:
        """End the run that is on, or the next one, with Aborted. Safe from any thread."""
        self._flag.value = 1

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """While inside, Ctrl-C ends a run at once instead of when it returns; KeyboardInterrupt
        (or whatever the handler in place does) follows as usual. For the main thread; one pool at
        a time."""
        self._dll.lp_sigint_watch(self._flag_at)
        try:
            yield
        finally:
            self._dll.lp_sigint_unwatch()
            self._flag.value = 0

    def close(self) -> None:
        """Ends the threads, after the run that is on. Twice is fine."""
        with self._lock:
            self._handle = None
            self._free()
            self._nodes = self._slots = None
