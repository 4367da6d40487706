"""How likely given texts are, line by line: contexts with continuations, or texts alone.

A line is `{"id"?, "context", "continuations": [..]}` or `{"id"?, "text"}`; each is a text or a list
of token ids. A continuation's tokens are those of context and continuation read as one text, from
the first that differs from the context's own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import llamapy
from llamapy.app.batch.lines import Line, known, text_or_ids
from llamapy.app.evaluate.perplexity import Evaluated
from llamapy.app.evaluate.scorer import (
    Question,
    Row,
    Scored,
    Scorer,
    ScoreSettings,
    check_fits,
    common,
)
from llamapy.app.generate import prompt_ids
from llamapy.app.identity import model_hash
from llamapy.base.errors import LlamapyError, NumericError, UsageError

Put = Callable[[Line, dict[str, Any]], None]
Given = bytes | list[int]


@dataclass(slots=True)
class Totals:
    """Lines and tokens; `n_kept` lines were answered before."""

    n_lines: int
    n_kept: int = 0
    n_done: int = 0
    n_failed: int = 0
    n_tokens: int = 0
    n_scored: int = 0


def describe(model: Any, s: ScoreSettings, *, special: bool) -> dict[str, Any]:
    """What the records depend on, for the side file."""
    params = {"n_ctx": s.n_ctx, "type_k": s.type_k, "type_v": s.type_v, "special": special}
    return {
        "schema_version": 1,
        "command": "score",
        "llamapy": llamapy.__version__,
        "model": {"hash": model_hash(model.gguf)},
        "params": params,
    }


class Scoring:
    """`lines` on an open model; `put` takes every record, in the order of the lines."""

    def __init__(
        self,
        model: Any,
        lines: Sequence[Line],
        s: ScoreSettings,
        *,
        special: bool,
        put: Put,
        totals: Totals,
    ) -> None:
        self.model, self.s, self.special = model, s, special
        self.put, self.totals = put, totals
        self.scorer = Scorer(model, s)
        self._lines = list(lines)
        self._asked: dict[int, Question] = {}
        self._n_context: dict[int, int] = {}
        self._errors: dict[int, LlamapyError] = {}
        for i, line in enumerate(self._lines):
            try:
                self._asked[i] = self._question(i, line)
            except LlamapyError as e:
                self._errors[i] = e

    def tokens(self) -> str:
        """sha256 (hex) of all rows' ids as little-endian int32, each after their number."""
        digest = hashlib.sha256()
        for row in (row for q in self._asked.values() for row in q.rows):
            digest.update(np.array([len(row.ids), *row.ids], "<i4").tobytes())
        return digest.hexdigest()

    def run(self, tell: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Score everything; `tell` how many tokens are evaluated, and of how many."""
        at = 0
        for event in self.scorer.run(list(self._asked.values())):
            if isinstance(event, Evaluated):
                self.totals.n_tokens = event.done
                tell(event.done, event.total)
                continue
            self._put_errors(range(at, event.number))
            self._put(event.number, event.rows)
            at = event.number + 1
        self._put_errors(range(at, len(self._lines)))

    def _put(self, i: int, rows: tuple[Scored, ...]) -> None:
        line, q = self._lines[i], self._asked.pop(i)
        if not all(map(math.isfinite, (x for row in rows for x in row.logprobs))):
            self._errors[i] = NumericError("NaN or Inf in the logits")
            self._put_errors([i])
            return
        self.totals.n_done += 1
        self.totals.n_scored += sum(len(row.logprobs) for row in rows)
        said = [_fields(row, scored) for row, scored in zip(q.rows, rows, strict=True)]
        if "text" in line.value:
            n, total = said[0]["n"], said[0]["logprob"]
            out = said[0] | {"ppl": math.exp(-total / n) if -total / n < 709 else None}
        else:
            best = max(range(len(said)), key=lambda k: said[k]["logprob"])
            out = {"n_context": self._n_context[i], "continuations": said, "best": best}
        self.put(line, {line.key: line.id, "status": "ok", **out, "digest": line.digest})

    def _put_errors(self, numbers: Iterable[int]) -> None:
        for i in numbers:
            line, e = self._lines[i], self._errors[i]
            self.totals.n_failed += 1
            error = {"code": e.exit_code, "kind": type(e).__name__, "message": str(e)}
            out = {line.key: line.id, "status": "error", "error": error, "digest": line.digest}
            self.put(line, out)

    def _question(self, i: int, line: Line) -> Question:
        if line.error is not None:
            raise line.error
        value = {k: v for k, v in line.value.items() if k not in ("id", "custom_id")}
        if "text" in value:
            known(value, ("text",))
            rows: tuple[Row, ...] = (self._whole(text_or_ids(value["text"], "text")),)
        else:
            known(value, ("context", "continuations"))
            rows = self._continued(i, value)
        check_fits(rows, self.s, self.model.hparams.n_ctx_train)
        return Question(i, rows)

    def _whole(self, text: Given) -> Row:
        """All tokens but the first, which nothing foretells."""
        ids = self._ids(text)
        if len(ids) < 2:
            raise UsageError(f"a text of {len(ids)} tokens: nothing to predict")
        return Row(ids, 1, len(ids))

    def _continued(self, i: int, value: dict[str, Any]) -> tuple[Row, ...]:
        for name in ("context", "continuations"):
            if name not in value:
                raise UsageError(f"the line has no {name}")
        given = value["continuations"]
        if not isinstance(given, list) or not given:
            raise UsageError("continuations must be a list of texts, at least one")
        context = text_or_ids(value["context"], "context")
        before = self._ids(context)
        self._n_context[i] = len(before)
        return tuple(self._row(context, before, text_or_ids(x, "a continuation")) for x in given)

    def _row(self, context: Given, before: tuple[int, ...], more: Given) -> Row:
        if not more:
            raise UsageError("a continuation is empty")
        if isinstance(context, list) or isinstance(more, list):
            if not (isinstance(context, list) and isinstance(more, list)):
                raise UsageError("context and continuations: either texts or token ids")
            ids = self._checked([*context, *more])
            return Row(ids, len(context), len(ids))
        begins = not context and not self.model.tokenizer.add_bos  # with a BOS nobody asked for
        encode = self.model.tokenizer.encode
        joined = encode(context + more, add_special=not begins, parse_special=self.special)
        ids = (*before, *joined) if begins else tuple(joined)
        first = min(common([before, ids]), len(ids) - 1)
        if first < 1:
            raise UsageError("nothing is before the continuation that could foretell its token")
        return Row(ids, first, len(ids))

    def _ids(self, text: Given) -> tuple[int, ...]:
        if getattr(self.model.tokenizer, "add_eos", False) and isinstance(text, bytes):
            raise UsageError("this vocabulary ends every text with EOS: give token ids")
        return self._checked(prompt_ids(self.model.tokenizer, text, parse_special=self.special))

    def _checked(self, ids: list[int]) -> tuple[int, ...]:
        n_vocab = self.model.hparams.n_vocab
        if max(ids) >= n_vocab:
            raise UsageError(f"token {max(ids)} is outside the vocabulary of {n_vocab}")
        return tuple(ids)


def _fields(row: Row, scored: Scored) -> dict[str, Any]:
    return {
        "logprob": math.fsum(scored.logprobs),
        "n": len(scored.logprobs),
        "greedy": scored.greedy,
        "ids": list(row.ids[row.first : row.end]),
        "logprobs": list(scored.logprobs),
    }
