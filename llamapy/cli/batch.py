"""`llamapy batch`: many prompts from JSON lines, an answer per line."""

from __future__ import annotations

import json as jsonlib
import os
import sys
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import BatchError, UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.interrupt import Interrupts
from llamapy.cli.progress import Progress
from llamapy.cli.run import DiffusionOptions, LimitOptions
from llamapy.cli.sampling import SamplingOptions

if TYPE_CHECKING:
    from llamapy.app.batch.job import Totals
    from llamapy.app.batch.lines import Item
    from llamapy.app.batch.out import OutFile
    from llamapy.app.generate import Settings

Input = Annotated[
    str | None, typer.Argument(metavar="[IN.jsonl]", help="The lines; -, or none: stdin.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Where the answers go, and how many are made together."""

    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Append there; go on if it is begun."),
    ] = None
    parallel: Annotated[
        int, typer.Option("-np", "--parallel", metavar="N", min=1, help="Sequences at a time.")
    ] = 8
    ordered: Annotated[bool, typer.Option("--ordered", help="Write in the order of the lines.")] = (
        False
    )
    force: Annotated[
        bool, typer.Option("--force", help="Go on though model, parameters or lines differ.")
    ] = False
    special: Annotated[
        bool,
        typer.Option("--special/--no-special", help="Control tokens written in prompts count."),
    ] = False
    print_special: Annotated[
        bool, typer.Option("-sp", "--print-special", help="Print control tokens that come out.")
    ] = False
    json: options.Json = False
    verbose: options.Verbose = 0
    strict: options.Strict = False


def command(
    job: JobOptions,
    limit: LimitOptions,
    model: options.ModelOptions,
    context: options.ContextOptions,
    sampling: SamplingOptions,
    diffusion: DiffusionOptions,
    lines: Input = None,
) -> None:
    """Answer every line of a JSONL file. Greedy, unless --temp or a line says otherwise."""
    options.begin(verbose=job.verbose, json=job.json, strict=job.strict)
    to_file = job.output not in (None, "-")
    if job.json and not to_file:
        raise UsageError("--json and the answers cannot both go to stdout: give -o OUT.jsonl")
    raw = read_input(lines)
    with options.open_model(model, threads=context.threads) as opened:
        settings = _settings(job, limit, context, sampling, opened)
        settings = replace(settings, diffusion=diffusion.settings(opened))
        with Interrupts() as interrupts:
            totals = _Batch(job, settings, opened, interrupts).answer(raw)
    log.info(_words(totals))
    if job.json:
        with streams.answer_to(None) as out:
            out.write(jsonlib.dumps(_result(totals, job, interrupts.requested)) + "\n")
    if interrupts.requested:
        log.note(f"interrupted: {_words(totals)}; the same command goes on")
        raise KeyboardInterrupt("said")
    if totals.n_failed:
        where = job.output if to_file else "their records"
        raise BatchError(f"{totals.n_failed} of {totals.n_lines} lines failed: see {where}")


def read_input(path: str | None) -> bytes:
    """The lines: of a file, or of stdin, which is not waited for where it is a terminal."""
    if path is not None and path != "-":
        return streams.read_file(path)
    if path is None and streams.is_terminal(sys.stdin):
        raise UsageError("no lines: give IN.jsonl, or pipe them in")
    return streams.read_stdin()


def _settings(
    job: JobOptions,
    limit: LimitOptions,
    context: options.ContextOptions,
    sampling: SamplingOptions,
    model: Any,
) -> Settings:
    from llamapy.app.generate import Settings
    from llamapy.app.sampling import sampler_params

    given = asdict(sampling)
    if given["temp"] is None:
        given["temp"] = 0.0
    return Settings(
        n_predict=limit.predict,
        **context.settings(),
        on_overflow=limit.on_overflow,
        parse_special=job.special,
        print_special=job.print_special,
        stop=tuple(s.encode("utf-8", "surrogateescape") for s in limit.stop or ()),
        include_stop=limit.include_stop,
        sampling=sampler_params(given, model.gguf.keys, ignore_eos=limit.ignore_eos, escape=False),
    )


class _Batch:
    """One job, into a file that can be gone on with or anything else that can be written."""

    def __init__(
        self, job: JobOptions, settings: Settings, model: Any, interrupts: Interrupts
    ) -> None:
        self.job, self.settings, self.model = job, settings, model
        self.interrupts = interrupts

    def answer(self, raw: bytes) -> Totals:
        from llamapy.app.batch.job import describe
        from llamapy.app.batch.lines import read_items
        from llamapy.app.batch.out import OutFile

        items = read_items(raw, self.settings)
        about = describe(self.model, self.settings)
        path = self.job.output
        if path is None or path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            with streams.answer_to(path) as out:
                return self._run(items, about["seed"], out.write, None)
        with OutFile(path) as file:
            about = file.resume(about, items, force=self.job.force)
            return self._run(items, about["seed"], file.write, file)

    def _run(self, items: list[Item], seed: int, write: Any, file: OutFile | None) -> Totals:
        from llamapy.app.batch.job import Job, Totals
        from llamapy.app.batch.lines import id_text
        from llamapy.app.batch.out import Ordered, as_line

        kept = {} if file is None else file.kept
        todo = [item for item in items if id_text(item.id) not in kept]
        totals = Totals(len(items), n_kept=len(items) - len(todo))
        ordered = Ordered([id_text(item.id) for item in items], write)
        if self.job.ordered and file is not None:
            ordered.begin(kept, file.rewrite)

        def put(item: Item, record: dict[str, Any]) -> None:
            if self.job.ordered:
                ordered.put(id_text(item.id), as_line(record))
            else:
                write(as_line(record))

        with Progress("batch", "tokens", shown=not log.json) as progress:

            def tell(t: Totals) -> None:
                if not progress.due():
                    return
                lines = f"lines {t.n_kept + t.n_done} done {t.n_failed} failed {t.left_lines} left"
                progress.update(t.n_prompt + t.n_generated, t.total, lines)

            job = Job(self.model, todo, seed, put, totals)
            job.run(
                self.settings,
                self.job.parallel,
                interrupted=lambda: self.interrupts.requested,
                tell=tell,
            )
        return totals


def _words(t: Totals) -> str:
    shared = f" ({t.n_shared} shared)" if t.n_shared else ""
    return (
        f"{t.n_kept + t.n_done} of {t.n_lines} lines answered ({t.n_kept} before), {t.n_failed}"
        f" failed; {t.n_prompt} prompt tokens{shared} and {t.n_generated} generated in"
        f" {t.seconds:.1f} s, {t.rate:.1f}/s"
    )


def _result(t: Totals, job: JobOptions, interrupted: bool) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "command": "batch",
        "path": job.output,
        "lines": t.n_lines,
        "kept": t.n_kept,
        "done": t.n_done,
        "failed": t.n_failed,
        "interrupted": interrupted,
        "counts": {"prompt": t.n_prompt, "shared": t.n_shared, "generated": t.n_generated},
        "graph": t.graphs or None,
        "timings": {
            "total_ms": round(t.seconds * 1e3, 3),
            "repack_ms": round(t.repack_s * 1e3, 3),
            "graphs_ms": round(t.graphs_s * 1e3, 3),
            "python_ms": round(t.python_s * 1e3, 3),
            "tokens_per_s": round(t.rate, 2) if t.seconds else None,
        },
        "warnings": log.warned,
    }
