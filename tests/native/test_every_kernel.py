"""Every row of the kernel table that this CPU can run equals its scalar twin bit for bit, however
its node is cut into tasks. A row without a generator of operands fails."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from cases import CASES
from harness import Case, run

from llamapy.ffi.lib import KernelRow, load

ROWS = load().kernels


def cases_of(row: KernelRow) -> list[Case]:
    """The same operands for every instruction set of a row."""
    assert row.family in CASES, f"{row}: no generator of operands for family '{row.family}'"
    name = f"{row.family}-{row.wtype}-{row.xtype}"
    found = CASES[row.family](np.random.default_rng(zlib.crc32(name.encode())), row)
    assert found, f"{row}: its generator gave no cases"
    return found


def assert_same(got: bytes, want: bytes, what: str) -> None:
    if got != want:
        a, b = np.frombuffer(got, np.uint8), np.frombuffer(want, np.uint8)
        at = np.flatnonzero(a != b)
        raise AssertionError(f"{what}: {len(at)} of {len(a)} bytes differ, the first at {at[0]}")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row_equals_its_scalar_twin(row: KernelRow) -> None:
    if row.need & ~load().features:
        pytest.skip(f"this CPU cannot run {row.isa}")
    twins = [k for k in ROWS if (k.family, k.wtype, k.xtype) == (row.family, row.wtype, row.xtype)]
    scalar = [k for k in twins if k.isa == "scalar"]
    assert scalar, f"{row}: no scalar twin"
    for i, case in enumerate(cases_of(row)):
        want = run(scalar[0].index, case)
        assert_same(run(row.index, case), want, f"{row} case {i} {case.name}")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_tasks_do_not_shape_results(row: KernelRow) -> None:
    if row.need & ~load().features:
        pytest.skip(f"this CPU cannot run {row.isa}")
    for i, case in enumerate(cases_of(row)):
        want = run(row.index, case)
        for split_for in (2, 3, 8):
            got = run(row.index, case, split_for=split_for)
            assert_same(got, want, f"{row} case {i} {case.name} cut for {split_for} threads")
        assert_same(run(row.index, case, n_threads=3), want, f"{row} case {i} on 3 threads")


def test_every_row_is_named_once() -> None:
    keys = [(k.family, k.wtype, k.xtype, k.isa) for k in ROWS]
    assert len(keys) == len(set(keys))


def test_generators_belong_to_a_family() -> None:
    assert CASES.keys() <= {k.family for k in ROWS}
