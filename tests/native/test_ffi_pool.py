"""Plans through Pool with real kernels: results, faults, aborts, Ctrl-C, threads that end."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from harness import row_of

from llamapy.base.errors import KernelError, LlamapyError
from llamapy.ffi.pool import Aborted, Pool, prepare
from llamapy.ffi.record import NODE, SYNC, empty_nodes


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(4) as p:
        yield p


class Plan:
    """A chain of element-wise nodes over vectors in numbered slots."""

    def __init__(self, *vectors: np.ndarray) -> None:
        self.vectors = vectors
        self.slots = np.array([v.ctypes.data for v in vectors], np.uint64)
        self.steps: list[tuple[str, int, tuple[int, ...]]] = []

    def add(self, family: str, dst: int, *src: int) -> None:
        self.steps.append((family, dst, src))

    def records(self) -> np.ndarray:
        nodes = empty_nodes(len(self.steps))
        for node, (family, dst, src) in zip(nodes, self.steps, strict=True):
            node["kernel"], node["flags"] = row_of(family).index, SYNC
            node["n_src"] = len(src)
            for operand, slot in [(node["dst"], dst), *zip(node["src"], src, strict=False)]:
                n = self.vectors[slot].size
                operand["slot"], operand["ne"] = slot, (n, 1, 1, 1)
                operand["nb"] = (4, 4 * n, 4 * n, 4 * n)
        return nodes


def ramp(n: int = 1000) -> np.ndarray:
    return np.arange(1, n + 1, dtype=np.float32)


def zeros(n: int = 1000) -> np.ndarray:
    return np.zeros(n, np.float32)


@pytest.mark.parametrize("n_threads", [1, 2, 3, 4])
def test_a_chain_computes_in_order(pool: Pool, n_threads: int) -> None:
    a, b, c = ramp(), ramp() * 2, zeros()
    plan = Plan(a, b, c)
    plan.add("add", 2, 0, 1)  # c = a + b = 3 a
    for _ in range(3):
        plan.add("mul", 2, 2, 1)  # c = c * 2 a
        plan.add("div", 2, 2, 0)  # c = c / a
    nodes = plan.records()
    scratch = prepare(nodes, n_threads)
    assert scratch % 64 == 0
    assert (nodes["n_tasks"] >= 1).all()
    for _ in range(2):  # a plan is run many times
        pool.run(nodes, plan.slots, scratch, n_threads)
        np.testing.assert_array_equal(c, ramp() * 24)


def test_slots_are_bound_per_run(pool: Pool) -> None:
    a, b, first, second = ramp(), ramp(), zeros(), zeros()
    plan = Plan(a, b, first)
    plan.add("add", 2, 0, 1)
    nodes = plan.records()
    scratch = prepare(nodes, 2)
    pool.run(nodes, plan.slots, scratch, 2)
    plan.slots[2] = second.ctypes.data
    pool.run(nodes, plan.slots, scratch, 2)
    np.testing.assert_array_equal(second, first)
    third = zeros()
    other = np.array([b.ctypes.data, a.ctypes.data, third.ctypes.data], np.uint64)
    pool.run(nodes, other, scratch, 2)  # another array, not the one remembered
    np.testing.assert_array_equal(third, first)


def test_a_fault_names_its_node(pool: Pool) -> None:
    plan = Plan(ramp(), ramp(), zeros())
    plan.add("add", 2, 0, 1)
    plan.add("add", 2, 2, 1)
    nodes = plan.records()
    scratch = prepare(nodes, 2)
    nodes["src"]["slot"][1, 1] = 3
    with pytest.raises(KernelError, match=r"^node 1 \(ffn_out-7\): the plan is malformed$"):
        pool.run(nodes, plan.slots, scratch, 2, ["ffn_inp-7", "ffn_out-7"])
    with pytest.raises(KernelError, match=r"^node 1 \(unnamed\)"):
        pool.run(nodes, plan.slots, scratch, 1)
    nodes["kernel"][0] = 10**6
    with pytest.raises(KernelError, match=r"^node 0 \(x\): the plan is malformed$"):
        prepare(nodes, 1, ["x", "y"])


def test_wrong_arrays_are_refused(pool: Pool) -> None:
    nodes, slots = empty_nodes(2), np.zeros(1, np.uint64)
    with pytest.raises(KernelError, match="contiguous array of records"):
        prepare(np.zeros(3, np.int64), 1)
    with pytest.raises(KernelError, match="contiguous array of records"):
        pool.run(np.zeros(4, NODE)[::2], slots, 64, 1)
    with pytest.raises(KernelError, match="contiguous array of uint64"):
        pool.run(nodes[:0], np.zeros(1, np.float64), 64, 1)
    with pytest.raises(KernelError, match="malformed"):
        pool.run(nodes[:0], slots, 64, 5)


def test_scratch_grows_and_stays_aligned(pool: Pool) -> None:
    nodes, slots = empty_nodes(0), np.zeros(1, np.uint64)
    for n_bytes in (64, 1 << 20, 128, 1 << 21):
        pool.run(nodes, slots, n_bytes, 3)
        assert pool._scratch_at % 64 == 0
        end = pool._scratch.ctypes.data + len(pool._scratch)
        assert pool._scratch_at + 3 * n_bytes <= end


def test_abort_before_a_run_ends_it_and_no_later_one(pool: Pool) -> None:
    c = zeros()
    plan = Plan(ramp(), ramp(), c)
    plan.add("add", 2, 0, 1)
    nodes = plan.records()
    scratch = prepare(nodes, 2)
    for n_threads in (1, 2):
        pool.abort()
        with pytest.raises(Aborted) as caught:
            pool.run(nodes, plan.slots, scratch, n_threads)
        assert caught.value.exit_code == 130
        assert not c.any()
    pool.run(nodes, plan.slots, scratch, 2)
    assert c.all()


def endless() -> tuple[Plan, np.ndarray]:
    """Many seconds of work whose first node sets vector 1 and whose last sets vector 2."""
    plan = Plan(np.ones(1 << 20, np.float32), zeros(1 << 20), zeros(1 << 20), zeros(1 << 20))
    plan.add("add", 1, 0, 0)
    for _ in range(20_000):
        plan.steps.append(("exp", 3, (0,)))
    plan.add("add", 2, 0, 0)
    steps, plan.steps = plan.steps, [plan.steps[0], plan.steps[1], plan.steps[-1]]
    few = plan.records()
    nodes = np.repeat(few, [1, len(steps) - 2, 1])
    return plan, nodes


def when_started(plan: Plan, act: Callable[[], None]) -> threading.Thread:
    def wait() -> None:
        while plan.vectors[1][-1] == 0:
            pass
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_long_run_is_aborted_by_another_thread(pool: Pool, n_threads: int) -> None:
    plan, nodes = endless()
    scratch = prepare(nodes, n_threads)
    thread = when_started(plan, pool.abort)
    with pytest.raises(Aborted):
        pool.run(nodes, plan.slots, scratch, n_threads)
    thread.join()
    assert not plan.vectors[2].any()


def test_ctrl_c_ends_a_long_run(pool: Pool) -> None:
    plan, nodes = endless()
    scratch = prepare(nodes, 2)
    handler = signal.getsignal(signal.SIGINT)
    thread = when_started(plan, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt), pool.interruptible():
        pool.run(nodes, plan.slots, scratch, 2)
    thread.join()
    assert not plan.vectors[2].any()
    assert signal.getsignal(signal.SIGINT) is handler
    short = nodes[-1:].copy()
    pool.run(short, plan.slots, scratch, 2)  # the flag is down again
    assert plan.vectors[2].all()


def n_threads_alive() -> int:
    return len(os.listdir("/proc/self/task"))


def falls_to(n: int) -> bool:
    """A joined thread may be listed for a moment longer."""
    for _ in range(200):
        if n_threads_alive() == n:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_no_thread_outlives_its_pool() -> None:
    before = n_threads_alive()
    for i in range(100):
        with Pool(1 + i % 4) as p:
            assert n_threads_alive() >= before + i % 4
        p.close()
    assert falls_to(before)
    forgotten = Pool(3)
    assert n_threads_alive() == before + 2
    del forgotten
    gc.collect()
    assert falls_to(before)


def test_a_closed_pool_refuses_to_run() -> None:
    p = Pool(2)
    p.close()
    with pytest.raises(KernelError, match="closed"):
        p.run(empty_nodes(0), np.zeros(1, np.uint64), 64)


@pytest.mark.parametrize("n_threads", [0, -3, 1_000_000])
def test_impossible_thread_counts(n_threads: int) -> None:
    with pytest.raises(LlamapyError, match="cannot start"):
        Pool(n_threads)
