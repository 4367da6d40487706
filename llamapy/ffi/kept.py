"""Rows of log-probabilities as small records, and other models' rows beside them: native/src/kept.h
says what a record is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llamapy.ffi.lib import load
from llamapy.ffi.softmax import ALONE, Rows, Workers

Bytes = npt.NDArray[np.uint8]
HEAD = np.dtype([("nll", "f8"), ("rest", "f8"), ("top", "i4"), ("n", "i4")])
_LEAST = 1e-15  # of probability: what is left of a sum of 1 that double cannot tell from nothing


@dataclass(frozen=True, slots=True)
class Beside:
    """What a record says, and how far a row is from it: KL divergence of the row from the record
    (in nats), over the tokens kept and the rest as one; whether both have one most likely token."""

    nll: float
    kl: float
    same_top: bool


def most_bytes(n_vocab: int) -> int:
    """Of one record."""
    return int(load().dll.lp_kept_most(n_vocab))


def keep(rows: Rows, nll: Sequence[float], workers: Workers = ALONE) -> list[Bytes]:
    """A record of each row, with the negative logarithm of the token that came."""
    n, n_vocab = rows.x.shape
    most = most_bytes(n_vocab)
    call = load().dll.lp_keep_row
    tops = rows.tops().tolist()
    top, total = rows.top.tolist(), rows.sum.tolist()
    out: list[Bytes] = [np.empty(0, np.uint8)] * n

    def part(first: int, end: int) -> None:
        room = np.empty(most // 8, np.uint64).view(np.uint8)
        for i in range(first, end):
            about = top[i], total[i], rows.log_sum[i], nll[i], tops[i]
            size = call(rows.x[i].ctypes.data, n_vocab, *about, room.ctypes.data)
            out[i] = room[:size].copy()

    workers.divide(n, part)
    return out


def cut(data: Bytes, n: int, n_vocab: int) -> list[Bytes] | None:
    """`n` records that lie one behind the other and are all of `data`; None where they do not.
    Their insides are for `beside` to check."""
    out: list[Bytes] = []
    at = 0
    for _ in range(n):
        if len(data) - at < HEAD.itemsize:
            return None
        kept = int(data[at : at + HEAD.itemsize].view(HEAD)["n"][0])
        size = HEAD.itemsize + 8 * -(-n_vocab // 64) + 8 * -(-2 * kept // 8)
        if not 0 < kept <= n_vocab or size > len(data) - at:
            return None
        out.append(data[at : at + size])
        at += size
    return out if at == len(data) else None


def beside(rows: Rows, records: Sequence[Bytes], workers: Workers = ALONE) -> list[Beside] | None:
    """Each row against its record. None where one is damaged."""
    n, n_vocab = rows.x.shape
    sums = np.zeros((n, 3), np.float64)
    good = [False] * n
    call = load().dll.lp_kept_against
    top = rows.top.tolist()

    def part(first: int, end: int) -> None:
        for i in range(first, end):
            r = records[i]
            row, out = rows.x[i].ctypes.data, sums[i].ctypes.data
            good[i] = 0 < call(r.ctypes.data, len(r), row, n_vocab, top[i], out) == len(r)

    workers.divide(n, part)
    if not all(good):
        return None
    heads = [r[: HEAD.itemsize].view(HEAD)[0].item() for r in records]
    if not all(_sound(head, n_vocab) for head in heads):
        return None
    total, tops = rows.sum.tolist(), rows.tops().tolist()
    return [
        Beside(nll, _divergence(rest, s, rows.log_sum[i], total[i]), tops[i] == top_id)
        for i, ((nll, rest, top_id, _), s) in enumerate(zip(heads, sums.tolist(), strict=True))
    ]


def _sound(head: tuple[float, float, int, int], n_vocab: int) -> bool:
    nll, rest, top, n = head
    return math.isfinite(nll) and 0 <= rest < 1 and 0 <= top < n_vocab and n > 0


def _divergence(rest: float, sums: list[float], log_sum: float, total: float) -> float:
    """`sums`: what lp_kept_against gives. The codes' probabilities are scaled to the sum they had
    before they were rounded, which leaves an error of second order."""
    coded, cross, other = sums
    kept = 1 - rest
    scale = kept / coded
    kl = scale * cross + kept * (math.log(scale) + log_sum)
    if rest:
        kl += rest * math.log(rest / max((total - other) / total, _LEAST))
    return max(kl, 0.0)
