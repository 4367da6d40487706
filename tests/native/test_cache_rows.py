"""Rows written to a cache are, bit for bit, what the formats' reference makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from cases_rows import blocks_edge, same_as
from harness import Case, operand, packed, result, row_of, run

from llamapy.base.errors import KernelError
from llamapy.base.types import BY_NAME, CACHE_TYPES
from llamapy.devices.ref.memory import decode, encode

PACKED = CACHE_TYPES[2:]


def samples() -> np.ndarray:
    """float32 [n, 64] of many magnitudes, with ties, constant rows and zeros."""
    rng = np.random.default_rng(1)
    scaled = rng.standard_normal((400, 64)) * 10.0 ** rng.integers(-6, 4, (400, 1))
    whole = rng.integers(-8, 8, (200, 64))
    edges = blocks_edge()[[0, 2, 3, 4]].repeat(2, axis=1)
    return np.concatenate([scaled, whole, edges]).astype(np.float32)


def copied(x: np.ndarray, name: str) -> np.ndarray:
    """uint8 [n, row bytes]"""
    case = Case([operand(x)], result(name, x.shape[::-1]))
    return np.frombuffer(run(row_of("cpy", name, "f32").index, case), np.uint8).reshape(len(x), -1)


@pytest.mark.parametrize("name", PACKED)
def test_blocks_are_those_of_the_reference(name: str) -> None:
    x = samples()
    want = np.ascontiguousarray(encode(x, BY_NAME[name])).view(np.uint8)
    assert np.array_equal(copied(x, name), want)


@pytest.mark.parametrize("name", PACKED)
def test_set_rows_writes_its_rows_only(name: str) -> None:
    x = samples()[:3]
    row = BY_NAME[name].row_bytes(64)
    table = np.arange(9 * row, dtype=np.uint32).astype(np.uint8).reshape(9, row)
    want = table.copy()
    want[[7, 0, 3]] = copied(x, name)
    cache = packed(table, name, (64, 9))
    srcs = [cache, operand(x), operand(np.array([7, 0, 3], np.int32))]
    case = Case(srcs, same_as(cache), alias=0)
    index = row_of("set_rows", name, "f32").index
    assert np.array_equal(np.frombuffer(run(index, case), np.uint8).reshape(9, row), want)
    for bad in (-1, 9):
        case.srcs[2] = operand(np.array([0, bad, 1], np.int32))
        with pytest.raises(KernelError):
            run(index, case)


# Largest error, as a share of the largest magnitude in a block; scale and minimum in f16 add a bit.
STEP = {"q8_0": 1 / 254, "q5_1": 1 / 31, "q5_0": 1 / 16, "q4_1": 1 / 15, "q4_0": 1 / 8}


@pytest.mark.parametrize("name", [*STEP, "iq4_nl"])
def test_what_is_stored_is_near(name: str) -> None:
    x = samples()[:400].reshape(-1, 32)
    x = x[np.abs(x).max(axis=1) > 1e-2]  # a scale that is subnormal in f16 loses digits
    got = decode(copied(x, name), BY_NAME[name], np.float64)
    error = np.abs(got - x).max(axis=1) / np.abs(x).max(axis=1)
    assert error.max() < STEP.get(name, 0.16) + 2**-9
