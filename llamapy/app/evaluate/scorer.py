"""Log-probabilities of given tokens: rows of tokens of which a part is scored, many together.

Rows of one question that begin alike are computed once up to where they part, in cells they share;
several questions go through the model in one batch. Each value has the bits it has alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from llamapy.app.evaluate.perplexity import ROWS_BYTES, Evaluated
from llamapy.app.fit import OPEN_ENDED_CTX
from llamapy.app.sizes import ContextSettings
from llamapy.base.errors import ContextError
from llamapy.ffi.softmax import Rows, Workers
from llamapy.runtime.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSettings(ContextSettings):
    """`n_ctx`: the longest row, None or 0: what the model was trained for. At most `n_parallel`
    rows and about `n_batch` tokens are computed together."""

    n_parallel: int = 32


@dataclass(frozen=True, slots=True)
class Row:
    """Of tokens `ids`, those from index `first` (at least 1) to `end` are scored, at least one."""

    ids: tuple[int, ...]
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Question:
    """`number` comes back with the answer."""

    number: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """Of one row: the log-probability of each scored token, NaN where the logits were no numbers,
    and whether each was the most likely one."""

    logprobs: tuple[float, ...]
    greedy: bool


@dataclass(frozen=True, slots=True)
class Answer:
    number: int
    rows: tuple[Scored, ...]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows of one question that are computed together, the first `shared` tokens once."""

    number: int
    rows: tuple[Row, ...]
    shared: int

    @property
    def n_tokens(self) -> int:
        return self.shared + sum(row.end - 1 - self.shared for row in self.rows)


@dataclass(slots=True)
class _Entry:
    """A token to be evaluated: of which sequences, and which (row, token) of the batch it tells."""

    token: int
    pos: int
    seqs: tuple[int, ...]
    tells: list[tuple[int, int]]


def common(rows: Sequence[tuple[int, ...]]) -> int:
    """How many tokens rows begin with alike."""
    shortest, longest = min(rows), max(rows)
    same = (i for i, (a, b) in enumerate(zip(shortest, longest, strict=False)) if a != b)
    return next(same, min(len(shortest), len(longest)))


def check_fits(rows: Sequence[Row], s: ScoreSettings, n_ctx_train: int) -> None:
    """ContextError when a row is longer than a context may be. Its last token needs no place."""
    limit = s.n_ctx or n_ctx_train
    need = max(row.end for row in rows) - 1
    if need > limit:
        raise ContextError(
            f"{need} tokens to evaluate do not fit a context of {limit}: the smallest that works is"
            f" --ctx-size {need} (the model was trained for {n_ctx_train})"
        )


class Scorer:
    """Questions through a model."""

    def __init__(self, model: Any, s: ScoreSettings) -> None:
        self.model, self.s = model, s
        self.isa, self.n_threads = "", 1
        self._n_rows = max(1, ROWS_BYTES // (4 * model.hparams.n_vocab))

    def run(self, questions: Sequence[Question]) -> Iterator[Evaluated | Answer]:
        """Answers in the order of the questions, all of whose rows fit (check_fits)."""
        groups = list(self._groups(questions))
        if not groups:
            return
        cells = max(sum(unit.n_tokens for unit in group) for group in groups)
        n_seqs = max(sum(len(unit.rows) for unit in group) for group in groups)
        sizes = {"n_ctx": cells, "n_ctx_seq": self._n_ctx_seq(questions), "n_seq_max": n_seqs}
        left = {q.number: len(q.rows) for q in questions}
        found: dict[int, list[Scored]] = {q.number: [] for q in questions}
        done, total = 0, sum(unit.n_tokens for group in groups for unit in group)
        with self.model.context(**self.s.of_context(**sizes)) as ctx:
            self.isa, self.n_threads = ctx.isa, ctx.n_threads
            with (
                ThreadPoolExecutor(ctx.n_threads) as pool,
                getattr(ctx, "interruptible", nullcontext)(),
            ):
                for group in groups:
                    ctx.clear()
                    scored = iter(self._group(ctx, group, Workers(pool, ctx.n_threads)))
                    for unit in group:
                        done += unit.n_tokens
                        found[unit.number] += [next(scored) for _ in unit.rows]
                        if len(found[unit.number]) == left[unit.number]:
                            yield Answer(unit.number, tuple(found.pop(unit.number)))
                    yield Evaluated(done, total)

    def _n_ctx_seq(self, questions: Sequence[Question]) -> int:
        """What some models rotate by: the same whatever else is asked, unless rows are long."""
        trained = int(self.model.hparams.n_ctx_train)
        longest = max(row.end - 1 for q in questions for row in q.rows)
        usual = min(trained, OPEN_ENDED_CTX)
        return self.s.n_ctx or (usual if longest <= usual else trained)

    def _groups(self, questions: Sequence[Question]) -> Iterator[list[_Unit]]:
        """Units that are computed in one go."""
        group: list[_Unit] = []
        n_tokens = n_rows = 0
        for unit in self._units(questions):
            tokens, rows = unit.n_tokens, len(unit.rows)
            full = n_tokens + tokens > self.s.n_batch or n_rows + rows > self.s.n_parallel
            if group and full:
                yield group
                group, n_tokens, n_rows = [], 0, 0
            group.append(unit)
            n_tokens, n_rows = n_tokens + tokens, n_rows + rows
        if group:
            yield group

    def _units(self, questions: Sequence[Question]) -> Iterator[_Unit]:
        n = self.s.n_parallel
        for q in questions:
            for at in range(0, len(q.rows), n):
                rows = q.rows[at : at + n]
                shared = min(common([row.ids for row in rows]), min(row.end for row in rows) - 1)
                yield _Unit(q.number, rows, shared)

    def _group(self, ctx: Any, group: list[_Unit], workers: Workers) -> list[Scored]:
        """Of every row of the group, in their order."""
        entries, targets = _entries(group)
        values: list[dict[int, tuple[float, bool]]] = [{} for _ in targets]
        at = 0
        while at < len(entries):
            part = _part(entries, at, self._n_rows)
            at += len(part)
            telling = [e for e in part if e.tells]
            logits = ctx.decode_batch(_batch(part))
            if not telling:
                continue
            told = [(i, row, k) for i, e in enumerate(telling) for row, k in e.tells]
            ids = np.array([targets[row][k] for _, row, k in told], np.int32)
            rows = Rows.of(logits, workers)
            tops = rows.tops().tolist()
            nll = rows.negative_log([i for i, _, _ in told], ids)
            for (i, row, k), id, x in zip(told, ids.tolist(), nll, strict=True):
                values[row][k] = -x, tops[i] == id
            del logits, rows  # before there are more
        return [Scored(tuple(v[k][0] for k in sorted(v)), all(v[k][1] for k in v)) for v in values]


def _entries(group: list[_Unit]) -> tuple[list[_Entry], list[tuple[int, ...]]]:
    """The tokens of a group, each after what its sequences have before it, and all rows' ids."""
    entries: list[_Entry] = []
    targets: list[tuple[int, ...]] = []
    for unit in group:
        base = len(targets)
        targets += [row.ids for row in unit.rows]
        numbered = list(enumerate(unit.rows, base))
        everyone = tuple(i for i, _ in numbered)
        for p in range(unit.shared):
            tells = [(i, p + 1) for i, row in numbered if row.first <= p + 1 < row.end]
            entries.append(_Entry(unit.rows[0].ids[p], p, everyone, tells))
        for i, row in numbered:
            for p in range(unit.shared, row.end - 1):
                tells = [(i, p + 1)] if row.first <= p + 1 else []
                entries.append(_Entry(row.ids[p], p, (i,), tells))
    return entries, targets


def _part(entries: list[_Entry], at: int, n_rows: int) -> list[_Entry]:
    """What comes next, with at most so many rows of logits."""
    end, n = at, 0
    while end < len(entries) and n + bool(entries[end].tells) <= n_rows:
        n += bool(entries[end].tells)
        end += 1
    return entries[at:end]


def _batch(entries: list[_Entry]) -> Batch:
    return Batch(
        np.array([e.token for e in entries], np.int32),
        np.array([e.pos for e in entries], np.int32),
        tuple(e.seqs for e in entries),
        np.array([bool(e.tells) for e in entries], np.bool_),
    )
