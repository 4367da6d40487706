"""A caller's batch and the three ways to cut it into ubatches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from llamapy.base.errors import UsageError
from llamapy.kv.api import Ints, Ubatch

MIN, MAX = np.iinfo(np.int32).min, np.iinfo(np.int32).max
_TYPES = (("tokens", np.dtype(np.int32)), ("pos", np.dtype(np.int32)), ("want", np.dtype(np.bool_)))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Tokens of one or more sequences. `seqs[i]` are the sequences token i is added to, which must
    be the same up to there; `want[i]` asks for its logits, which come back in the order of the
    tokens. UsageError for arrays of other types or lengths."""

    tokens: Ints  # [n]
    pos: Ints  # [n]
    seqs: tuple[tuple[int, ...], ...]
    want: npt.NDArray[np.bool_]  # [n]

    def __post_init__(self) -> None:
        for name, type_ in _TYPES:
            array = getattr(self, name)
            if array.dtype != type_ or array.shape != (len(self.seqs),):
                raise UsageError(
                    f"a batch of {len(self.seqs)} tokens: {name} must be "
                    f"{type_}[{len(self.seqs)}], not {array.dtype}{list(array.shape)}"
                )
        if not all(self.seqs):
            raise UsageError(f"token {self.seqs.index(())} of a batch belongs to no sequence")

    @property
    def n_tokens(self) -> int:
        return len(self.tokens)

    @property
    def n_outputs(self) -> int:
        return int(np.count_nonzero(self.want))


def single(tokens: Sequence[int] | Ints, first_pos: int, seq: int, logits: str) -> Batch:
    """Consecutive tokens of one sequence; `logits` is 'last', 'all' or 'none'."""
    ids = _ids(tokens)
    want = np.zeros(len(ids), np.bool_)
    if logits == "all":
        want[:] = True
    elif logits == "last":
        want[-1:] = True
    elif logits != "none":
        raise UsageError(f"logits must be 'last', 'all' or 'none', not {logits!r}")
    pos = np.arange(first_pos, first_pos + len(ids), dtype=np.int32)
    return Batch(ids, pos, ((seq,),) * len(ids), want)


def _ids(tokens: Sequence[int] | Ints) -> Ints:
    """Ids as int32[n]. UsageError for what is no list of whole numbers of that size."""
    ids = np.asarray(tokens)
    if ids.ndim != 1:
        raise UsageError(f"tokens must be a list of ids, got {ids.ndim} axes")
    if ids.size and ids.dtype.kind not in "iu":
        raise UsageError(f"tokens must be whole numbers, got {ids.dtype}")
    if ids.dtype != np.int32 and ids.size and not MIN <= ids.min() <= ids.max() <= MAX:
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


def _take(batch: Batch, at: Ints, place: Ints) -> Ubatch:
    """The tokens at indices `at`; `place[i]` is token i's row in the caller's result."""
    outputs = np.flatnonzero(batch.want[at]).astype(np.int32)
    return Ubatch(
        batch.tokens[at],
        batch.pos[at],
        tuple(batch.seqs[i] for i in at),
        outputs,
        place[at[outputs]],
    )


def _places(batch: Batch) -> Ints:
    return (np.cumsum(batch.want) - 1).astype(np.int32)


def split_simple(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """Tokens in order, n_ubatch at a time."""
    if batch.n_tokens <= n_ubatch:
        outputs = batch.want.nonzero()[0].astype(np.int32)
        order = np.arange(len(outputs), dtype=np.int32)
        yield Ubatch(batch.tokens, batch.pos, batch.seqs, outputs, order)
        return
    place = _places(batch)
    for i in range(0, batch.n_tokens, n_ubatch):
        yield _take(batch, np.arange(i, min(i + n_ubatch, batch.n_tokens), dtype=np.int32), place)


def _by_sequence(batch: Batch) -> list[list[int]]:
    """Token indices of each set of sequences, in order of appearance."""
    found: dict[tuple[int, ...], list[int]] = {}
    for i, seqs in enumerate(batch.seqs):
        found.setdefault(seqs, []).append(i)
    return list(found.values())


def split_equal(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """The same number of tokens from each of several sequences: for state that advances by rows."""
    place = _places(batch)
    queues = _by_sequence(batch)
    while queues:
        now = queues[:n_ubatch]
        n = min(n_ubatch // len(now), min(len(q) for q in now))
        at = np.array([i for q in now for i in q[:n]], np.int32)
        yield _take(batch, at, place)
        queues = [q[n:] for q in now if len(q) > n] + queues[len(now) :]


def split_seq(batch: Batch, n_ubatch: int) -> Iterator[Ubatch]:
    """One set of sequences at a time."""
    place = _places(batch)
    for queue in _by_sequence(batch):
        for i in range(0, len(queue), n_ubatch):
            yield _take(batch, np.array(queue[i : i + n_ubatch], np.int32), place)


SPLIT = {"simple": split_simple, "equal": split_equal, "seq": split_seq}
