"""What the recurrent kernels mean, against numpy in float64, and the laws of their states: where a
prompt is cut and who else is in the batch cannot be seen in the bits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from cases_recur import FAMILIES, RUNS, Recur, calls
from harness import row_of, run

from llamapy.base.errors import KernelError
from llamapy.devices.ref import MEANING
from llamapy.ffi.lib import best_kernel

Array = np.ndarray


def compute(call: Recur, isa: str | None = None, n_threads: int = 1) -> tuple[Array, Array]:
    """Result [n_tokens, ..] and state after the kernel ran."""
    index = best_kernel(call.op, "f32", "f32") if isa is None else row_of(call.op, isa=isa).index
    assert index is not None
    raw = np.frombuffer(run(index, call.case(), n_threads), np.float32)
    n = call.n_tokens * int(np.prod(call.out))
    y, state = raw[:n].reshape(call.n_tokens, *call.out), raw[n:].reshape(call.state.shape)
    return y, state.copy()  # no view, whose whole memory would be an operand


def four(x: Array) -> Array:
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def meaning(call: Recur) -> tuple[Array, Array]:
    """The same in float64."""
    state, *rest = (four(x.astype(np.float64)) for x in (call.state, *call.operands))
    node = SimpleNamespace(name=call.op, params=call.given)
    runs = four(np.array(call.runs, np.int32))
    y = MEANING[call.op](node, state, *rest, runs)
    return y.reshape(call.n_tokens, *call.out), state.reshape(call.state.shape)


def every(op: str) -> list[Recur]:
    return calls(np.random.default_rng(11), op)


@pytest.mark.parametrize("op", FAMILIES)
def test_against_float64(op: str) -> None:
    for call in every(op):
        for got, want in zip(compute(call, "scalar"), meaning(call), strict=True):
            bound = 2e-6 * np.abs(want).max()
            assert np.abs(got - want).max() <= bound, call.name


@pytest.mark.parametrize("op", FAMILIES)
def test_cells_that_no_run_writes_stay(op: str) -> None:
    written = {write for *_, write in RUNS if write >= 0}
    for call in every(op):
        _, state = compute(call)
        for cell in range(len(state)):
            same = np.array_equal(state[cell], call.state[cell])
            assert same == (cell not in written), (call.name, cell)
        assert np.array_equal(state[1], call.state[2]), "a run without tokens copies"


@pytest.mark.parametrize("op", FAMILIES)
def test_token_by_token_and_alone_are_the_same_bits(op: str) -> None:
    for call in every(op):
        want, state_want = compute(call)
        for first, n, read, write in RUNS:
            cells = call.state.copy()
            for at in range(first, first + n):
                y, cells = compute(call.part(cells, at, 1, read if at == first else write, write))
                assert np.array_equal(y[0], want[at]), (call.name, at)
            if n:
                alone, after = compute(call.part(call.state, first, n, read, write))
                assert np.array_equal(alone, want[first : first + n])
                assert np.array_equal(after[write], state_want[write])
                assert np.array_equal(cells[write], state_want[write]), call.name


@pytest.mark.parametrize("op", FAMILIES)
def test_a_fresh_run_is_one_of_zeros(op: str) -> None:
    for call in every(op):
        zeros = call.state.copy()
        zeros[5] = 0
        fresh, state = compute(call.part(call.state, 0, 5, -1, 0))
        again, state_again = compute(call.part(zeros, 0, 5, 5, 0))
        assert np.array_equal(fresh, again) and np.array_equal(state[0], state_again[0])


@pytest.mark.parametrize("op", FAMILIES)
def test_a_cell_may_be_read_and_written(op: str) -> None:
    for call in every(op):
        other, state = compute(call.part(call.state, 0, 5, 2, 3))
        same, state_same = compute(call.part(call.state, 0, 5, 2, 2))
        assert np.array_equal(other, same) and np.array_equal(state[3], state_same[2])


@pytest.mark.parametrize("op", FAMILIES)
@pytest.mark.parametrize(
    "runs",
    [
        [(0, 9, 6, 0)],
        [(0, 9, -2, 0)],
        [(0, 9, 0, 6)],
        [(0, 9, 0, -1)],
        [(1, 9, 0, 1)],
        [(-1, 9, 0, 1)],
        [(0, 8, 0, 1)],
        [(0, 9, 0, 1), (0, -1, 0, 2)],
        [(0, 9, 0, 1), (0, 0, 0, 6)],
    ],
)
def test_cells_and_tokens_out_of_range_are_refused(op: str, runs: list[tuple[int, ...]]) -> None:
    call = every(op)[0]
    call.runs = runs
    with pytest.raises(KernelError, match="index"):
        compute(call)
    with pytest.raises(IndexError):
        meaning(call)
