"""A caller's batch, and how it is cut into ubatches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import ContextError, UsageError
from llamapy.kv.api import Ints, Ubatch, counted

MIN, MAX = np.iinfo(np.int32).min, np.iinfo(np.int32).max
_INT, _BOOL = np.dtype(np.int32), np.dtype(np.bool_)
# Of a step of one token, which is made often: the weights have just driven all else out of the
# CPU's caches, and each call into numpy takes 5 to 20 us.
_NO, _YES = np.zeros(1, np.bool_), np.ones(1, np.bool_)
for _constant in (_NO, _YES):
    _constant.flags.writeable = False


@dataclass(slots=True, eq=False)
class Batch:
    """Tokens of one or more sequences. `seqs[i]` are the sequences token i is added to, which must
    be the same up to there; `want[i]` asks for its logits, which come back in the order of the
    tokens. `encodes`: they are texts for an encoder. UsageError for arrays of other types or
    lengths."""

    tokens: Ints  # [n]
    pos: Ints  # [n]
    seqs: tuple[tuple[int, ...], ...]
    want: npt.NDArray[np.bool_]  # [n]
    encodes: bool = False

    n_outputs: int = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.seqs)
        for name, array, type_ in (
            ("tokens", self.tokens, _INT), ("pos", self.pos, _INT), ("want", self.want, _BOOL)
        ):  # fmt: skip
            same = array.dtype is type_ or array.dtype == type_  # the first is much quicker told
            if not same or array.shape != (n,):
                raise UsageError(
                    f"a batch of {n} tokens: {name} must be {type_}[{n}], not "
                    f"{array.dtype}{list(array.shape)}"
                )
            if not array.flags.c_contiguous:  # inputs are copied by bytes
                setattr(self, name, np.ascontiguousarray(array))
        if () in self.seqs:
            raise UsageError(f"token {self.seqs.index(())} of a batch belongs to no sequence")
        self.n_outputs = self.want.tobytes().count(1)

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)


def single(tokens: Sequence[int] | Ints, first_pos: int, seq: int, logits: str) -> Batch:
    """Consecutive tokens of one sequence; `logits` is 'last', 'all' or 'none'."""
    if logits not in ("last", "all", "none"):
        raise UsageError(f"logits must be 'last', 'all' or 'none', not {logits!r}")
    ids = _ids(tokens)
    pos = counted(first_pos, len(ids))
    if len(ids) == 1:
        return Batch(ids, pos, ((seq,),), _NO if logits == "none" else _YES)
    want = np.full(len(ids), logits == "all")
    want[-1:] = logits != "none"
    return Batch(ids, pos, ((seq,),) * len(ids), want)


def _ids(tokens: Sequence[int] | Ints) -> Ints:
    """Ids as int32[n]. UsageError for what is no list of whole numbers of that size."""
    ids = np.asarray(tokens)
    if ids.ndim != 1:
        raise UsageError(f"tokens must be a list of ids, got {ids.ndim} axes")
    if ids.size and ids.dtype.kind not in "iu":
        raise UsageError(f"tokens must be whole numbers, got {ids.dtype}")
    if ids.dtype != _INT and ids.size and not MIN <= ids.min() <= ids.max() <= MAX:
        raise UsageError(f"tokens reach from {ids.min()} to {ids.max()}: no ids")
    return np.ascontiguousarray(ids, np.int32)


def join(parts: Sequence[Batch]) -> Batch:
    """Several sequences' tokens in one batch."""
    return Batch(
        np.concatenate([p.tokens for p in parts]),
        np.concatenate([p.pos for p in parts]),
        tuple(s for p in parts for s in p.seqs),
        np.concatenate([p.want for p in parts]),
    )


def split(batch: Batch, n_ubatch: int, cut: str) -> Iterable[Ubatch]:
    """Ubatches of at most n_ubatch tokens, as a memory wants them cut (kv.api.Memory). Each token
    comes after what its sequences had before it."""
    return split_simple(batch, n_ubatch) if cut == "anywhere" else split_runs(batch, n_ubatch, cut)


def _take(batch: Batch, at: Ints, place: Ints, seqs: tuple[tuple[int, ...], ...]) -> Ubatch:
    """The tokens at indices `at`; `place[i]` is token i's row in the caller's result."""
    outputs = np.flatnonzero(batch.want[at]).astype(np.int32)
    order = place[at[outputs]]
    return Ubatch(batch.tokens[at], batch.pos[at], seqs, outputs, order, batch.encodes)


def _places(batch: Batch) -> Ints:
    return (np.cumsum(batch.want) - 1).astype(np.int32)


def whole(batch: Batch) -> Ubatch:
    """All tokens as they are."""
    order = outputs = counted(0, batch.n_outputs)
    if 0 < batch.n_outputs < batch.n_tokens:
        outputs = batch.want.nonzero()[0].astype(np.int32)
    return Ubatch(batch.tokens, batch.pos, batch.seqs, outputs, order)


def split_simple(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """Tokens in order, n_ubatch at a time."""
    if batch.n_tokens <= n_ubatch:
        yield whole(batch)
        return
    place = _places(batch)
    for i in range(0, batch.n_tokens, n_ubatch):
        at = np.arange(i, min(i + n_ubatch, batch.n_tokens), dtype=np.int32)
        yield _take(batch, at, place, batch.seqs[i : i + n_ubatch])


@dataclass(slots=True)
class _Run:
    """Tokens of the same sequences, none of which has another token between them."""

    seqs: tuple[int, ...]
    before: set[int]  # the runs (by number) that its sequences were in last
    at: list[int]  # its tokens still to come, by index


def _runs(batch: Batch) -> dict[int, _Run]:
    runs: dict[int, _Run] = {}
    latest: dict[int, int] = {}  # by sequence: the run it was in last
    first = 0
    for of, tokens in groupby(batch.seqs):
        at = range(first, first + len(list(tokens)))
        first = at.stop
        seqs = of if len(of) == 1 else tuple(sorted(set(of)))
        before = {latest[s] for s in seqs if s in latest}
        run = runs[min(before)] if before else None
        if run is not None and run.seqs == seqs and len(before) == 1:
            run.at += at
        else:
            latest.update(dict.fromkeys(seqs, len(runs)))
            runs[len(runs)] = _Run(seqs, before, list(at))
    return runs


def split_runs(batch: Batch, n_ubatch: int, cut: str) -> list[Ubatch]:
    """Tokens of the same sequences together, in order; a run whose sequences are in an earlier one
    (a shared prefix) goes into a later ubatch than that. `cut` 'whole': no run is cut, ContextError
    where one does not fit."""
    waiting = _runs(batch)
    if cut == "whole":
        _check_whole(waiting, n_ubatch)
    place = _places(batch)
    out = []
    while waiting:
        at: list[int] = []
        seqs: list[tuple[int, ...]] = []
        for run in [r for r in waiting.values() if waiting.keys().isdisjoint(r.before)]:
            n = min(len(run.at), n_ubatch - len(at))
            if cut == "whole" and n < len(run.at):
                continue
            at += run.at[:n]
            seqs += [run.seqs] * n
            run.at = run.at[n:]
        waiting = {number: run for number, run in waiting.items() if run.at}
        out.append(_take(batch, np.array(at, np.int32), place, tuple(seqs)))
    return out


def _check_whole(runs: dict[int, _Run], n_ubatch: int) -> None:
    for run in runs.values():
        if len(run.at) > n_ubatch:
            raise ContextError(
                f"sequence {run.seqs[0]} has {len(run.at)} tokens, and this model takes a sequence "
                f"in one go of at most {n_ubatch}; use a larger -ub"
            )
