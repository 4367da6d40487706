"""The tasks of `llamapy perplexity`: HellaSwag, Winogrande, multiple choice."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.cli import options
from llamapy.cli.interrupt import interruption
from llamapy.cli.progress import Progress

if TYPE_CHECKING:
    from llamapy.app.evaluate.choice import Result, Tally, Tasks
    from llamapy.app.evaluate.ledger import Ledger
    from llamapy.app.evaluate.scorer import Scorer

NAMES = {"hellaswag": "HellaSwag", "winogrande": "Winogrande", "multiple-choice": "multiple choice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOptions:
    """How much is computed together, and what is kept."""

    parallel: Annotated[
        int | None,
        typer.Option("-np", "--parallel", metavar="N", min=1, help="At a time; else what -b holds"),
    ] = None
    chunks_out: Annotated[
        str | None,
        typer.Option("--chunks-out", metavar="FILE", help="A JSON line per window or task."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with what --chunks-out or --kl-base has.")
    ] = False
    output: options.Output = None
    json: options.Json = False
    verbose: options.Verbose = 0
    strict: options.Strict = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Which questions the file holds, and how many are asked."""

    hellaswag: Annotated[
        bool, typer.Option("--hellaswag", help="FILE holds HellaSwag's tasks, six lines each.")
    ] = False
    winogrande: Annotated[
        bool, typer.Option("--winogrande", help="FILE holds Winogrande's tasks, CSV.")
    ] = False
    multiple_choice: Annotated[
        bool, typer.Option("--multiple-choice", help="FILE holds tasks in llama-perplexity's form.")
    ] = False
    tasks: Annotated[
        int | None,
        typer.Option(
            "--tasks",
            "--hellaswag-tasks",
            "--winogrande-tasks",
            "--multiple-choice-tasks",
            metavar="N",
            min=0,
            help="So many, drawn; 0: the default, 400 of HellaSwag, else all.",
        ),
    ] = None

    @property
    def kind(self) -> str | None:
        asked = (self.hellaswag, self.winogrande, self.multiple_choice)
        return next((kind for kind, is_it in zip(NAMES, asked, strict=True) if is_it), None)

    def check(self, of_text: bool) -> None:
        """UsageError for flags that do not go together; `of_text`: there are some of a text."""
        if self.hellaswag + self.winogrande + self.multiple_choice + of_text > 1:
            raise UsageError("one thing at a time: a text, or the tasks of one kind")
        if self.tasks is not None and self.kind is None:
            raise UsageError("--tasks: of which kind? --hellaswag, --winogrande, --multiple-choice")

    def answer(
        self, model: Any, raw: bytes, context: options.ContextOptions, keep: KeepOptions
    ) -> dict[str, Any]:
        """Ask, and say how many were right."""
        from llamapy.app.evaluate.choice import Tally, identity, parser, read_tasks, token_hash
        from llamapy.app.evaluate.ledger import ledger
        from llamapy.app.evaluate.scorer import Scorer, ScoreSettings

        assert self.kind is not None
        s = ScoreSettings(**context.settings())
        s = s if keep.parallel is None else replace(s, n_parallel=keep.parallel)
        t = read_tasks(model, self.kind, raw, self.tasks, s)
        about = identity(model, t, s)
        scorer, tally = Scorer(model, s), Tally()
        with ExitStack() as stack:
            lines = None
            if keep.chunks_out is not None:
                opened = ledger(keep.chunks_out, about, parser(t), resume=keep.resume)
                lines = stack.enter_context(opened)
            done = lines.done[: len(t.tasks)] if lines else []
            for result in done:
                tally.add(result)
            with interruption(lambda: went_on(tally.n + tally.n_failed, len(t.tasks), keep)):
                _ask(t, scorer, tally, len(done), lines)
        return {
            "schema_version": 1,
            "command": "perplexity",
            **about,
            "tokens": token_hash(t),
            "n_tasks": len(t.tasks),
            **tally.result(),
            "n_resumed": len(done),
            "n_parallel": s.n_parallel,
            "isa": scorer.isa or None,
            "threads": scorer.n_threads,
            "warnings": log.warned,
        }

    def text(self, answer: dict[str, Any]) -> str:
        """The line for people."""
        name = NAMES[answer["method"]]
        if answer["accuracy"] is None:
            return f"no {name} score: no task could be asked"
        p, error, (low, high) = (answer[x] for x in ("accuracy", "accuracy_error", "interval95"))
        spread = "" if error is None else f" +/- {100 * error:.4f}"
        return (
            f"Final {name} score ({answer['n_done']} tasks): {100 * p:.4f}%{spread}"
            f" [{100 * low:.4f}%, {100 * high:.4f}%], by chance {100 * answer['chance']:.4f}%"
        )


def went_on(n: int, total: int, keep: KeepOptions, base: str | None = None) -> str:
    """What is said of windows or tasks where Ctrl-C ended them. `base`: where one is written."""
    kept = (
        "--resume goes on" if keep.chunks_out or base else "--chunks-out FILE would have kept them"
    )
    return f"{n} of {total} done; {kept}"


def _ask(t: Tasks, scorer: Scorer, tally: Tally, start: int, lines: Ledger[Result] | None) -> None:
    """The tasks from `start` on, shown, written and counted."""
    from llamapy.app.evaluate.choice import fields, results
    from llamapy.app.evaluate.perplexity import Evaluated

    with Progress(t.kind, "tokens", shown=not log.json) as progress:
        for event in results(t, scorer, start):
            if isinstance(event, Evaluated):
                more = "" if tally.accuracy is None else f"{100 * tally.accuracy:.1f}% right"
                progress.update(event.done, event.total, more)
                continue
            tally.add(event)
            if lines:
                lines.write(fields(event))
            so_far = "" if tally.accuracy is None else f" {100 * tally.accuracy:.4f}%"
            log.info(f"[{event.number + 1}]{so_far} {event.error or event.choice}")
