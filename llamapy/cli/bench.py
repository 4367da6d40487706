"""`llamapy bench`: tokens per second, and how much of the machine that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.base.types import CACHE_TYPES
from llamapy.cli import options, streams
from llamapy.cli.progress import Progress

if TYPE_CHECKING:
    from llamapy.app.bench.params import Lists
    from llamapy.app.bench.run import Job

Values = list[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatOptions:
    """Which models."""

    model: Annotated[
        list[str] | None,
        typer.Option("-m", "--model", metavar="FILE", help="GGUF file; may be repeated."),
    ] = None
    synthetic: Annotated[
        list[str] | None,
        typer.Option(
            "--synthetic",
            metavar="SHAPE[/LAYERS]:TYPE",
            help="Random weights instead, as llama-1b/8:Q4_K_M; may be repeated.",
        ),
    ] = None
    load_mode: options.LoadMode = "mmap"
    repack: options.Repack = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOptions:
    """What to run. Lists: "128,256", ranges "1-8*2", "0-512+128", or the flag repeated."""

    n_prompt: Annotated[
        Values, typer.Option("-p", "--n-prompt", metavar="LIST", help="Prompt tokens. [512]")
    ] = None
    n_gen: Annotated[
        Values, typer.Option("-n", "--n-gen", metavar="LIST", help="Generated tokens. [128]")
    ] = None
    pg: Annotated[
        Values, typer.Option("-pg", metavar="PP,TG", help="Prompt, then generation, in one test.")
    ] = None
    n_depth: Annotated[
        Values, typer.Option("-d", "--n-depth", metavar="LIST", help="Tokens before. [0]")
    ] = None
    repetitions: Annotated[
        int, typer.Option("-r", "--repetitions", metavar="N", min=1, help="Samples per test.")
    ] = 5
    threads: Annotated[
        Values, typer.Option("-t", "--threads", metavar="LIST", help="[what the CPU allows]")
    ] = None
    batch_size: Annotated[
        Values, typer.Option("-b", "--batch-size", metavar="LIST", help="Tokens per call. [2048]")
    ] = None
    ubatch_size: Annotated[
        Values, typer.Option("-ub", "--ubatch-size", metavar="LIST", help="Per graph. [512]")
    ] = None
    cache_type_k: Annotated[
        Values, typer.Option("-ctk", "--cache-type-k", metavar="LIST", help="Types of K. [f16]")
    ] = None
    cache_type_v: Annotated[
        Values, typer.Option("-ctv", "--cache-type-v", metavar="LIST", help="Types of V. [f16]")
    ] = None
    warmup: Annotated[bool, typer.Option("--warmup/--no-warmup", help="Run each once before.")] = (
        True
    )
    interleave: Annotated[
        bool,
        typer.Option(
            "--interleave/--no-interleave", help="Tests take turns; else one is done at a time."
        ),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What else to measure, and how to print it."""

    roofline: Annotated[
        bool,
        typer.Option("--roofline", help="Measure the machine's peaks; figures as shares of them."),
    ] = False
    phases: Annotated[
        bool,
        typer.Option("--phases", help="Load, prefill, decode, sampling, text: each on its own."),
    ] = False
    ops: Annotated[
        bool, typer.Option("--ops", help="Time per kernel of the decode and the prompt graph.")
    ] = False
    format: Annotated[
        str, typer.Option("-o", "--output", metavar="FORMAT", help="md, csv, json or jsonl.")
    ] = "md"
    json: Annotated[bool, typer.Option("--json", help="As -o json; errors as JSON.")] = False
    verbose: options.Verbose = 0
    strict: options.Strict = False


def command(what: WhatOptions, test: TestOptions, show: ReportOptions) -> None:
    """Measure tokens per second. Flags and figures mean what they mean to llama-bench."""
    options.begin(verbose=show.verbose, json=show.json, strict=show.strict)
    format = "json" if show.json else show.format
    job = _job(what, test, show, format)
    from llamapy.app.bench.report import render
    from llamapy.app.bench.run import bench

    with Progress("bench", "repetitions", shown=not log.json) as progress:
        report = bench(job, lambda what, done, total: progress.update(done, total))
    with streams.answer_to(None) as out:
        out.write(render(report, format))


def _job(what: WhatOptions, test: TestOptions, show: ReportOptions, format: str) -> Job:
    from llamapy.app.bench.params import cases
    from llamapy.app.bench.report import FORMATS
    from llamapy.app.bench.run import Job
    from llamapy.app.bench.shapes import parse_spec

    if format not in FORMATS:
        raise UsageError(f"-o {format}: must be one of {', '.join(FORMATS)}")
    if format == "csv" and (show.phases or show.ops):
        log.warn("W10", "-o csv holds tests alone: --phases and --ops are not printed")
    specs = [parse_spec(text) for text in what.synthetic or ()]
    all_cases = cases(_lists(test))
    given: list[str | None] = list(what.model or ())
    if not given and not specs:
        given = [None]
    return Job(
        models=[*(options.resolve_model(name) for name in given), *specs],
        cases=all_cases,
        repetitions=test.repetitions,
        warm_up=test.warmup,
        interleave=test.interleave,
        load_mode=what.load_mode,
        repack=what.repack,
        roofline=show.roofline,
        phases=show.phases and format != "csv",
        ops=show.ops and format != "csv",
    )


def _lists(o: TestOptions) -> Lists:
    from llamapy.app.bench.params import Lists, names, numbers, pairs
    from llamapy.base.threads import default_threads

    threads = numbers(o.threads, "-t", 1) if o.threads else [default_threads().n]
    for n in threads:
        options.ContextOptions(threads=n).n_threads()  # says when they are more than CPUs
    return Lists(
        n_prompt=numbers(o.n_prompt or ["512"], "-p"),
        n_gen=numbers(o.n_gen or ["128"], "-n"),
        pg=pairs(o.pg or [], "-pg"),
        n_depth=numbers(o.n_depth or ["0"], "-d"),
        n_batch=numbers(o.batch_size or ["2048"], "-b", 1),
        n_ubatch=numbers(o.ubatch_size or ["512"], "-ub", 1),
        type_k=names(o.cache_type_k or ["f16"], "-ctk", CACHE_TYPES),
        type_v=names(o.cache_type_v or ["f16"], "-ctv", CACHE_TYPES),
        n_threads=threads,
    )
