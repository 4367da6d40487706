"""`llamapy plan`: how much memory a model and its context take, against what there is."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from llamapy.base.errors import MemoryBudgetError, UsageError
from llamapy.base.log import log
from llamapy.base.memory import in_units
from llamapy.cli import options, streams

File = Annotated[str, typer.Argument(metavar="[FILE]", help="The model, if not given by -m.")]
Parallel = Annotated[
    int, typer.Option("-np", "--parallel", metavar="N", min=1, help="Sequences in the context.")
]
Outputs = Annotated[
    int,
    typer.Option(
        "--outputs", metavar="N", min=0, help="Tokens per graph whose logits are asked for."
    ),
]
LABELS = {
    "in_place": ("weights", "read in place: pages of the file"),
    "copied": ("weights", "copied"),
    "interleaved": ("interleaved", "weights again, for generation: --repack {repack}"),
    "cache": ("cache", "K and V, and states"),
    "compute": ("compute", "what graphs hold between their nodes"),
    "scratch": ("scratch", "of the threads"),
    "output": ("output", "logits handed out"),
    "program": ("program", "interpreter and vocabulary, estimated"),
}


def command(
    model: options.ModelOptions,
    context: options.ContextOptions,
    file: File = "",
    parallel: Parallel = 1,
    outputs: Outputs = 0,
    output: options.Output = None,
    json: options.Json = False,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Read the header of a model and print what it and a context take of memory, whether that fits
    (exit code 5 if not), the largest context that does, and the flags that ask for it."""
    options.begin(verbose=verbose, json=json, strict=strict)
    if file and model.model is not None:
        raise UsageError("two models are given: FILE and -m")
    found = _plan(replace(model, model=file or model.model), context, parallel, outputs)
    with streams.answer_to(output) as out:
        out.write((jsonlib.dumps(found) if json else "\n".join(lines(found))) + "\n")
    for note in found["notes"]:
        log.warn("W01", note)
    for row in found["devices"]:
        if not row["fits"] and not model.overcommit:
            raise MemoryBudgetError(_short(row, found["largest_ctx"]))


def _plan(
    model: options.ModelOptions, context: options.ContextOptions, parallel: int, outputs: int
) -> dict[str, Any]:
    path = options.resolve_model(model.model)
    from llamapy.app.plan import PlanSettings, plan

    settings = PlanSettings(
        **context.settings(),
        n_parallel=parallel,
        n_outputs=outputs,
        load_mode=model.load_mode,
        repack=model.repack,
    )
    return plan(path, settings, options.place_flags(model), lenient=model.lenient)


def _short(row: dict[str, Any], largest: int | None) -> str:
    way = f"--ctx-size {largest} does" if largest else "no context does"
    return (
        f"does not fit: {in_units(row['needs_bytes'])} are needed on {row['device']}, "
        f"{in_units(row['available_bytes'])} are available; {way}"
    )


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The text form: the question, a table per device, the answers."""
    p = found["params"]
    sequences = f", {p['n_seq_max']} sequences" if p["n_seq_max"] > 1 else ""
    yield f"{'model':<13}{found['path']} ({found['architecture']})"
    yield (
        f"{'context':<13}{p['n_ctx']} tokens{sequences}, K {p['type_k']}, V {p['type_v']}; "
        f"trained for {found['n_ctx_train']}"
    )
    for row in found["devices"]:
        yield ""
        yield row["device"]
        yield from _table(row, found["repack"])
    yield ""
    yield f"{'fits':<13}{'yes' if found['fits'] else 'no'}"
    if found["largest_ctx"] is None:
        largest = "none" if not found["fits"] else "not known: the system does not tell"
    else:
        whole = found["largest_ctx"] == found["n_ctx_train"]
        largest = f"{found['largest_ctx']}{', all it was trained for' if whole else ''}"
    yield f"{'largest':<13}{largest}"
    from llamapy.app.plan import command_line

    yield f"{'flags':<13}{command_line(found)}"


def _table(row: dict[str, Any], repack: str) -> Iterator[str]:
    for part, (label, about) in LABELS.items():
        if row[f"{part}_bytes"]:
            yield _line(label, row[f"{part}_bytes"], about.format(repack=repack))
    optional = row["peak_bytes"] - row["needs_bytes"]
    yield _line("needs", row["needs_bytes"], "without interleaved weights" if optional else "")
    if optional:
        yield _line("peak", row["peak_bytes"], "if they are made")
    if row["available_bytes"] is not None:
        yield _line("available", row["available_bytes"], "")


def _line(label: str, n: int, about: str) -> str:
    return f"  {label:<11}{in_units(n):>11}  {about}".rstrip()
