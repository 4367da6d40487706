"""Which of several answers a model finds likeliest, task by task, as llama-perplexity decides it.

An answer's score is the mean log-probability of its tokens. HellaSwag and multiple choice: of those
after what all answers begin with. Winogrande: of those behind the choice where more than three
tokens differ in both, else of those that differ; the last is left out where there are others. The
first of equal scores is chosen, in Winogrande the second.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from llamapy.app.evaluate.formats import READERS, Task, draw
from llamapy.app.evaluate.ledger import Parse
from llamapy.app.evaluate.perplexity import Evaluated
from llamapy.app.evaluate.scorer import (
    Answer,
    Question,
    Row,
    Scorer,
    ScoreSettings,
    check_fits,
    common,
)
from llamapy.app.identity import model_hash
from llamapy.base.errors import LlamapyError, NumericError, UsageError

Z95 = 1.959963984540054  # of the normal distribution, 2.5 % on either side
_TRAILING = 3


@dataclass(frozen=True, slots=True)
class Result:
    """A task, counted from 0 in the order asked and in the file. `error` is why there are no
    scores."""

    number: int
    index: int
    gold: int
    scores: tuple[float, ...] = ()
    choice: int = -1
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tasks:
    """What is asked. `questions` are those that can be, `errors` says why not of the others."""

    kind: str
    tasks: list[Task]
    questions: dict[int, Question]
    errors: dict[int, str]
    digest: str  # of the file
    drawn: bool  # not all, or in another order than the file's


def read_tasks(model: Any, kind: str, raw: bytes, n: int | None, s: ScoreSettings) -> Tasks:
    """UsageError for a file that is not of this kind, or without a task."""
    everything = READERS[kind](raw)
    tasks = draw(kind, everything, n)
    if not tasks:
        raise UsageError("the file has no tasks")
    questions, errors = {}, {}
    for i, task in enumerate(tasks):
        try:
            questions[i] = Question(i, _rows(task, model.tokenizer))
            check_fits(questions[i].rows, s, model.hparams.n_ctx_train)
        except LlamapyError as e:
            questions.pop(i, None)
            errors[i] = str(e)
    drawn = kind == "hellaswag" or len(tasks) < len(everything)
    return Tasks(kind, tasks, questions, errors, hashlib.sha256(raw).hexdigest(), drawn)


def _rows(task: Task, tokenizer: Any) -> tuple[Row, ...]:
    ids = [_ids(tokenizer, text) for text in task.texts]
    shared = min(common(ids), min(map(len, ids)) - 1)
    if shared < 1:
        raise UsageError("the answers have no token in common to begin with")
    firsts = [shared] * len(ids)
    if task.heads:
        if all(len(row) - shared > _TRAILING for row in ids):
            firsts = [len(_ids(tokenizer, head)) for head in task.heads]
        ends = [max(len(row) - 1, first + 1) for row, first in zip(ids, firsts, strict=True)]
    else:
        ends = [len(row) for row in ids]
    rows = tuple(Row(*row) for row in zip(ids, firsts, ends, strict=True))
    if any(row.end > len(row.ids) or row.first < 1 for row in rows):
        raise UsageError("nothing stands before a choice, or behind it")
    return rows


def _ids(tokenizer: Any, text: bytes) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special=True, parse_special=False))


def identity(model: Any, t: Tasks, s: ScoreSettings) -> dict[str, Any]:
    """All that a task's line depends on, and not how many there are."""
    return {
        "method": t.kind,
        "model": model_hash(model.gguf),
        "file": t.digest,
        "drawn": t.drawn,
        "n_ctx": s.n_ctx or model.hparams.n_ctx_train,
        "type_k": s.type_k,
        "type_v": s.type_v,
    }


def token_hash(t: Tasks) -> str:
    """sha256 (hex) of all rows' ids as little-endian int32, each after their number."""
    digest = hashlib.sha256()
    for q in t.questions.values():
        for row in q.rows:
            digest.update(np.array([len(row.ids), *row.ids], "<i4").tobytes())
    return digest.hexdigest()


def results(t: Tasks, scorer: Scorer, start: int) -> Iterator[Evaluated | Result]:
    """Tasks from number `start` on, in their order. NumericError for logits that are no numbers;
    those before have been given by then."""
    at = start
    asked = [q for i, q in t.questions.items() if i >= start]
    for event in scorer.run(asked):
        if isinstance(event, Evaluated):
            yield event
            continue
        yield from (_failed(t, i) for i in range(at, event.number))
        yield _result(t, event)
        at = event.number + 1
    yield from (_failed(t, i) for i in range(at, len(t.tasks)))


def _failed(t: Tasks, i: int) -> Result:
    task = t.tasks[i]
    return Result(i, task.index, task.gold, error=t.errors[i])


def _result(t: Tasks, answer: Answer) -> Result:
    task = t.tasks[answer.number]
    scores = tuple(math.fsum(row.logprobs) / len(row.logprobs) for row in answer.rows)
    if not all(map(math.isfinite, scores)):
        raise NumericError(f"NaN or Inf in the logits of task {answer.number + 1}")
    best = max(scores)
    choice = scores.index(best)
    if t.kind == "winogrande" and scores[1] == best:
        choice = 1
    return Result(answer.number, task.index, task.gold, scores, choice)


def fields(r: Result) -> dict[str, Any]:
    """A task's line."""
    out: dict[str, Any] = {"task": r.number + 1, "index": r.index, "gold": r.gold}
    if r.error is not None:
        return out | {"error": r.error}
    return out | {"scores": r.scores, "choice": r.choice}


def parser(t: Tasks) -> Parse[Result]:
    """Reads the lines of these tasks, and of more of them."""

    def parse(i: int, found: dict[str, Any]) -> Result | None:
        index, gold = found.get("index"), found.get("gold")
        if found.get("task") != i + 1 or type(index) is not int or type(gold) is not int:
            return None
        if i < len(t.tasks) and (t.tasks[i].index, t.tasks[i].gold) != (index, gold):
            return None
        error = found.get("error")
        if isinstance(error, str):
            return Result(i, index, gold, error=error)
        scores, choice = found.get("scores"), found.get("choice")
        if not isinstance(scores, list) or not all(type(x) is float for x in scores):
            return None
        if type(choice) is not int or not 0 <= choice < len(scores):
            return None
        return Result(i, index, gold, tuple(scores), choice)

    return parse


class Tally:
    """How many were right."""

    def __init__(self) -> None:
        self.n = self.n_right = self.n_failed = 0
        self._chance = 0.0

    def add(self, r: Result) -> None:
        if r.error is not None:
            self.n_failed += 1
            return
        self.n += 1
        self.n_right += r.choice == r.gold
        self._chance += 1 / len(r.scores)

    @property
    def accuracy(self) -> float | None:
        return self.n_right / self.n if self.n else None

    def result(self) -> dict[str, Any]:
        """Accuracy, its standard error, its 95 % interval (Wilson), what guessing would give."""
        n, p = self.n, self.accuracy
        if p is None:
            empty = {"accuracy": None, "accuracy_error": None, "interval95": None, "chance": None}
            return {"n_done": 0, "n_failed": self.n_failed, **empty}
        z2 = Z95 * Z95
        half = Z95 * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        middle = (p + z2 / (2 * n)) / (1 + z2 / n)
        return {
            "n_done": n,
            "n_failed": self.n_failed,
            "accuracy": p,
            "accuracy_error": math.sqrt(p * (1 - p) / (n - 1)) if n > 1 else None,
            "interval95": [middle - half, middle + half],
            "chance": self._chance / n,
        }
