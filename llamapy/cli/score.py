"""`llamapy score`: how likely given continuations of given contexts are, a record per line."""

from __future__ import annotations

import json as jsonlib
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import BatchError, UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.batch import Input, read_input
from llamapy.cli.interrupt import interruption
from llamapy.cli.progress import Progress

if TYPE_CHECKING:
    from llamapy.app.batch.lines import Line
    from llamapy.app.batch.out import OutFile
    from llamapy.app.evaluate.score import Totals


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """Where the records go, and how much is computed together."""

    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Append there; go on if it is begun."),
    ] = None
    parallel: Annotated[
        int, typer.Option("-np", "--parallel", metavar="N", min=1, help="Continuations at a time.")
    ] = 32
    force: Annotated[
        bool, typer.Option("--force", help="Go on though model, parameters or lines differ.")
    ] = False
    special: Annotated[
        bool, typer.Option("--special/--no-special", help="Control tokens written in texts count.")
    ] = False
    json: options.Json = False
    verbose: options.Verbose = 0
    strict: options.Strict = False


def command(
    score: ScoreOptions,
    model: options.ModelOptions,
    context: options.ContextOptions,
    lines: Input = None,
) -> None:
    """Log-probabilities of continuations, or of whole texts: {"context", "continuations": [..]} or
    {"text"} in each line."""
    options.begin(verbose=score.verbose, json=score.json, strict=score.strict)
    to_file = score.output not in (None, "-")
    if score.json and not to_file:
        raise UsageError("--json and the records cannot both go to stdout: give -o OUT.jsonl")
    raw = read_input(lines)
    with options.open_model(model, threads=context.threads) as opened:
        totals, result = _Score(score, context, opened).answer(raw)
    if score.json:
        with streams.answer_to(None) as out:
            out.write(jsonlib.dumps(result) + "\n")
    if totals.n_failed:
        where = score.output if to_file else "their records"
        raise BatchError(f"{totals.n_failed} of {totals.n_lines} lines failed: see {where}")


class _Score:
    """One job, into a file that can be gone on with or anything else that can be written."""

    def __init__(self, score: ScoreOptions, context: options.ContextOptions, model: Any) -> None:
        from llamapy.app.evaluate.score import describe
        from llamapy.app.evaluate.scorer import ScoreSettings

        self.score, self.model = score, model
        self.settings = ScoreSettings(**context.settings(), n_parallel=score.parallel)
        self.about = describe(model, self.settings, special=score.special)

    def answer(self, raw: bytes) -> tuple[Totals, dict[str, Any]]:
        from llamapy.app.batch.lines import read_lines
        from llamapy.app.batch.out import OutFile

        lines = read_lines(raw)
        path = self.score.output
        if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            with streams.answer_to(path) as out:
                return self._run(lines, out.write, None)
        with OutFile(path) as file:
            file.resume(self.about, lines, force=self.score.force)
            return self._run(lines, file.write, file)

    def _run(
        self, lines: list[Line], write: Any, file: OutFile | None
    ) -> tuple[Totals, dict[str, Any]]:
        from llamapy.app.batch.lines import id_text
        from llamapy.app.batch.out import as_line
        from llamapy.app.evaluate.score import Scoring, Totals

        kept = {} if file is None else file.kept
        todo = [line for line in lines if id_text(line.id) not in kept]
        totals = Totals(len(lines), n_kept=len(lines) - len(todo))
        begun = time.perf_counter()

        def put(line: Line, record: dict[str, Any]) -> None:
            write(as_line(record))

        special = self.score.special
        job = Scoring(self.model, todo, self.settings, special=special, put=put, totals=totals)
        tokens = job.tokens()
        with Progress("score", "tokens", shown=not log.json) as progress:

            def tell(done: int, total: int) -> None:
                lines = f"lines {totals.n_kept + totals.n_done} done {totals.n_failed} failed"
                progress.update(done, total, lines)

            with interruption(lambda: f"{_words(totals)}; with -o the same command goes on"):
                job.run(tell)
        seconds = time.perf_counter() - begun
        log.info(f"{_words(totals)} in {seconds:.1f} s")
        return totals, self._result(totals, job.scorer, tokens, seconds)

    def _result(self, t: Totals, scorer: Any, tokens: str, seconds: float) -> dict[str, Any]:
        return {
            **self.about,
            "method": "score",
            "tokens": tokens,
            "path": self.score.output,
            "lines": t.n_lines,
            "kept": t.n_kept,
            "done": t.n_done,
            "failed": t.n_failed,
            "counts": {"evaluated": t.n_tokens, "scored": t.n_scored},
            "timings": {"total_ms": round(seconds * 1e3, 3)},
            "isa": scorer.isa or None,
            "threads": scorer.n_threads,
            "warnings": log.warned,
        }


def _words(t: Totals) -> str:
    return (
        f"{t.n_kept + t.n_done} of {t.n_lines} lines scored ({t.n_kept} before), {t.n_failed}"
        f" failed; {t.n_tokens} tokens evaluated, {t.n_scored} scored"
    )
