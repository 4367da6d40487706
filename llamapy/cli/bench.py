"""`llamapy bench`: tokens per second, and how much of the machine that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

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
    load_mode: Annotated[
        Values, typer.Option("-lm", "--load-mode", metavar="LIST", help="[mmap], read, mmap+mlock.")
    ] = None
    repack: Annotated[
        Values, typer.Option("--repack", metavar="LIST", help="Interleave rows: [auto], on, off.")
    ] = None
    overcommit: options.Overcommit = False


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
    warmup: Annotated[
        bool,
        typer.Option("--warmup/--no-warmup", help="Run each before, until two runs agree."),
    ] = True
    until_steady: Annotated[
        float,
        typer.Option(
            "--until-steady", metavar="SECONDS", min=0, help="Repeat on until the MAD is small."
        ),
    ] = 0.0
    interleave: Annotated[
        bool,
        typer.Option(
            "--interleave/--no-interleave", help="Tests take turns; else one is done at a time."
        ),
    ] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedOptions:
    """Several sequences together, whole runs. Instead of tests of -p and -n, or beside them where
    these are given."""

    npp: Annotated[
        Values, typer.Option("-npp", metavar="LIST", help="Batched: tokens of each prompt. [128]")
    ] = None
    ntg: Annotated[
        Values, typer.Option("-ntg", metavar="LIST", help="Tokens generated of each. [128]")
    ] = None
    npl: Annotated[Values, typer.Option("-npl", metavar="LIST", help="Sequences together. [1]")] = (
        None
    )
    pps: Annotated[bool, typer.Option("-pps", help="They share one prompt.")] = False
    tgs: Annotated[
        bool, typer.Option("-tgs", help="They generate one after the other, not together.")
    ] = False
    end_to_end: Annotated[
        bool,
        typer.Option(
            "--end-to-end", help="Whole 'run' processes of -p and -n: start, load, answer, end."
        ),
    ] = False


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
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare", metavar="A.json B.json", help="Two reports instead: B against A."
        ),
    ] = None
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Compare though conditions differ; they are printed.")
    ] = False
    format: Annotated[
        str, typer.Option("-o", "--output", metavar="FORMAT", help="md, csv, json, jsonl or sql.")
    ] = "md"
    json: Annotated[bool, typer.Option("--json", help="As -o json; errors as JSON.")] = False
    verbose: options.Verbose = 0
    strict: options.Strict = False


def command(
    what: WhatOptions, test: TestOptions, many: BatchedOptions, show: ReportOptions
) -> None:
    """Measure tokens per second. Flags and figures mean what they mean to llama-bench and
    llama-batched-bench."""
    options.begin(verbose=show.verbose, json=show.json, strict=show.strict)
    format = "json" if show.json else show.format
    from llamapy.app.bench.report import FORMATS, render

    if format not in FORMATS:
        raise UsageError(f"-o {format}: must be one of {', '.join(FORMATS)}")
    if show.compare:
        report = _compare(show.compare, show.anyway)
    else:
        job = _job(what, test, many, show, format)
        from llamapy.app.bench.run import bench

        with Progress("bench", "repetitions", shown=not log.json) as progress:

            def tick(label: str, done: int, total: int) -> None:
                progress.stage(f"bench {label}", "repetitions")
                progress.update(done, total)

            report = bench(job, tick)
    with streams.answer_to(None) as out:
        out.write(render(report, format))
    if report.get("interrupted"):
        log.note("interrupted: printed is what was measured until then")
        raise KeyboardInterrupt("said")


def _compare(paths: tuple[str, str], anyway: bool) -> dict[str, Any]:
    from llamapy.app.bench.compare import compare, read_report

    a, b = (read_report(path, streams.read_file(path)) for path in paths)
    return compare(a, b, paths, anyway=anyway)


def _job(
    what: WhatOptions, test: TestOptions, many: BatchedOptions, show: ReportOptions, format: str
) -> Job:
    from llamapy.app.bench.params import names
    from llamapy.app.bench.report import ROWS_ALONE
    from llamapy.app.bench.run import Job
    from llamapy.app.bench.shapes import parse_spec
    from llamapy.loader.repack import CHOICES
    from llamapy.loader.weights import MODES

    if show.anyway:
        log.warn("W10", "--anyway is about --compare")
    alone = format in ROWS_ALONE
    if alone and (show.phases or show.ops):
        log.warn("W10", f"-o {format} holds tests alone: --phases and --ops are not printed")
    specs = [parse_spec(text) for text in what.synthetic or ()]
    tests = _tests(test, many)
    if not tests["cases"] and (show.phases or show.ops or show.roofline):
        raise UsageError("--roofline, --phases and --ops are about tests of -p and -n: give these")
    given: list[str | None] = list(what.model or ())
    if not given and not specs:
        given = [None]
    return Job(
        models=[*(options.resolve_model(name) for name in given), *specs],
        **tests,
        repetitions=test.repetitions,
        warm_up=test.warmup,
        until_steady=test.until_steady,
        interleave=test.interleave,
        load_modes=names(what.load_mode or ["mmap"], "-lm", MODES),
        repacks=names(what.repack, "--repack", CHOICES) if what.repack else [None],
        overcommit=what.overcommit,
        roofline=show.roofline,
        phases=show.phases and not alone,
        ops=show.ops and not alone,
    )


def _tests(test: TestOptions, many: BatchedOptions) -> dict[str, Any]:
    """What is run: the tests of -p and -n, unless only others are asked for."""
    from llamapy.app.bench.params import batched_cases, cases, whole_cases

    lists, out = _lists(test, many), dict[str, Any]()
    batched = bool(many.npp or many.ntg or many.npl or many.pps or many.tgs)
    if batched:
        out["batched"] = batched_cases(lists, shared=many.pps, separate=many.tgs)
    if many.end_to_end:
        out["whole"] = whole_cases(lists)
    plain = bool(test.n_prompt or test.n_gen or test.pg) and not many.end_to_end
    out["cases"] = cases(lists) if plain or not (batched or many.end_to_end) else []
    if test.n_depth and not out["cases"]:
        log.warn("W10", "-d is about tests of -p and -n, and there are none")
    return out


def _lists(o: TestOptions, many: BatchedOptions) -> Lists:
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
        npp=numbers(many.npp or ["128"], "-npp", 1),
        ntg=numbers(many.ntg or ["128"], "-ntg", 1),
        npl=numbers(many.npl or ["1"], "-npl", 1),
    )
