"""Rows of tables that are looked up by the last tokens of a sequence together.

A token is remembered as its id plus one, 0 where there is none, so that a state that starts with
zeros remembers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from llamapy.kv.api import Floats, Ints, Step, Ubatch


def last_tokens(ubatch: Ubatch, step: Step, n: int, cell: Callable[[int], Any]) -> Ints:
    """Each token and the n - 1 before it, the newest first, [n_tokens, n]. `cell(i)` are the bytes
    of what a cell remembers, f32 [n - 1], the newest first."""
    out = np.empty((ubatch.n_tokens, n), np.int32)
    for first, count, before, _ in step.runs:
        line = np.zeros(n - 1 + count, np.int32)
        if before >= 0:
            line[: n - 1] = np.frombuffer(cell(before), np.float32)[::-1]
        line[n - 1 :] = ubatch.tokens[first : first + count] + 1
        windows = np.lib.stride_tricks.sliding_window_view(line, n)
        out[first : first + count] = windows[:, ::-1]
    return out


def remembered(last: Ints) -> Floats:
    """What a cell holds after each token, f32 [n_tokens, n - 1]."""
    return np.ascontiguousarray(last[:, :-1], np.float32)


def ngram_rows(
    last: Ints,
    eos: int,
    multipliers: Sequence[int],
    offsets: Sequence[int],
    sizes: Sequence[int],
) -> Ints:
    """Rows [n_tokens, n_heads]: products with odd numbers, xor of the newest two, three, .. of
    them, modulo the head's rows. From an `eos` on, other than the token itself, or where there is
    no token, all count as `eos`."""
    n = last.shape[1]
    gone = np.logical_or.accumulate((last[:, 1:] == 0) | (last[:, 1:] == eos + 1), axis=1)
    ids = last.astype(np.int64) - 1
    ids[:, 1:][gone] = eos
    products = ids.astype(np.uint64) * np.array(multipliers, np.uint64)
    mixed = np.bitwise_xor.accumulate(products, axis=1)[:, 1:]  # [n_tokens, n - 1]
    mixed = np.repeat(mixed, len(sizes) // (n - 1), axis=1)
    rows = mixed % np.array(sizes, np.uint64) + np.array(offsets, np.uint64)
    return rows.astype(np.int32)
