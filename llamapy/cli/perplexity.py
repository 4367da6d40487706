"""`llamapy perplexity`: how well a model foretells a text."""

from __future__ import annotations

import json as jsonlib
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.progress import Progress

if TYPE_CHECKING:
    from llamapy.app.chunks import ChunkFile
    from llamapy.app.perplexity import Estimate, Perplexity, PerplexitySettings, Windows

File = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="The text; -: stdin.")
]
Chunks = Annotated[
    int, typer.Option("--chunks", metavar="N", help="At most so many windows; -1: all.")
]
Stride = Annotated[
    int,
    typer.Option(
        "--stride", "--ppl-stride", metavar="N", min=0, help="A window every N tokens; 0: apart."
    ),
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "-np", "--parallel", metavar="N", min=1, help="Windows at a time. Default: what -b holds."
    ),
]
ChunksOut = Annotated[
    str | None, typer.Option("--chunks-out", metavar="FILE", help="A JSON line per window.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on after the windows in --chunks-out FILE.")
]


def command(
    model: options.ModelOptions,
    context: options.ContextOptions,
    file: File = None,
    chunks: Chunks = -1,
    stride: Stride = 0,
    parallel: Parallel = None,
    chunks_out: ChunksOut = None,
    resume: Resume = False,
    output: options.Output = None,
    json: options.Json = False,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Perplexity of a text, by the method and to the numbers of llama-perplexity."""
    options.begin(verbose=verbose, json=json, strict=strict)
    if file is None:
        raise UsageError("of which text? give -f FILE (or -f - for stdin)")
    if resume and chunks_out is None:
        raise UsageError("--resume needs --chunks-out FILE, the windows done so far")
    if chunks == 0 or chunks < -1:
        raise UsageError(f"--chunks {chunks}: a number of windows, or -1 for all")
    text = streams.read_stdin() if file == "-" else streams.read_file(file)
    with options.open_model(model, threads=context.threads) as opened:
        answer = _measure(
            opened, text, _settings(context, chunks, stride, parallel), chunks_out, resume
        )
    with streams.answer_to(output) as out:
        out.write((jsonlib.dumps(answer) if json else _text(answer)) + "\n")


def _settings(
    context: options.ContextOptions, chunks: int, stride: int, parallel: int | None
) -> PerplexitySettings:
    from llamapy.app.perplexity import DEFAULT_CTX, PerplexitySettings

    return PerplexitySettings(
        **context.settings(n_ctx=DEFAULT_CTX),
        n_chunks=None if chunks < 0 else chunks,
        stride=stride,
        n_parallel=parallel,
    )


def _measure(
    model: Any, text: bytes, s: PerplexitySettings, chunks_out: str | None, resume: bool
) -> dict[str, Any]:
    from llamapy.app.chunks import chunk_file
    from llamapy.app.perplexity import Estimate, Perplexity, identity, text_ids, windows

    w = windows(model, text_ids(model.tokenizer, text), s)
    about = identity(model, w, s)
    run, estimate = Perplexity(model, w, s), Estimate()
    opened = nullcontext() if chunks_out is None else chunk_file(chunks_out, about, resume=resume)
    with opened as lines:
        done = lines.done[: w.n] if lines else []
        for chunk in done:
            estimate.add(chunk)
        _run(run, estimate, len(done), lines)
    return {
        "schema_version": 1,
        "command": "perplexity",
        **about,
        "ppl": estimate.ppl,
        "ppl_error": estimate.error,
        "nll": estimate.nll / estimate.n,
        "n_scored": estimate.n,
        "n_chunks": w.n,
        "n_resumed": len(done),
        "n_parallel": run.n_parallel,
        "isa": run.isa or None,
        "threads": run.n_threads,
        "seconds": {name: round(s, 4) for name, s in run.seconds.items()},
        "warnings": log.warned,
    }


def _run(run: Perplexity, estimate: Estimate, start: int, lines: ChunkFile | None) -> None:
    """The windows from `start` on, shown, written and added up."""
    from llamapy.app.perplexity import Evaluated

    w: Windows = run.w
    before, total = 0, (w.n - start) * (w.size - 1)
    with Progress("perplexity", "tokens", shown=not log.json) as progress:
        for event in run.run(start):
            if isinstance(event, Evaluated):
                progress.update(before + event.done, total)
                before += event.total if event.done == event.total else 0
                continue
            estimate.add(event)
            if lines:
                lines.write(event, estimate.ppl)
            log.info(f"[{event.index + 1}]{estimate.ppl:.4f}")


def _text(answer: dict[str, Any]) -> str:
    error = answer["ppl_error"]
    spread = "no error: the variance is not positive" if error is None else f"+/- {error:.5f}"
    return f"Final estimate: PPL = {answer['ppl']:.4f} {spread}"
