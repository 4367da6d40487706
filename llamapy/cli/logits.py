"""`llamapy logits`: what the model says of given tokens, as a .npy file."""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.progress import Progress

if TYPE_CHECKING:
    from llamapy.app.logits import LogitsSettings, Written

Tokens = Annotated[
    str | None, typer.Option("--tokens", metavar="1,2,3", help="Token ids, as they are.")
]
TokensFile = Annotated[
    str | None, typer.Option("--tokens-file", metavar="FILE", help="Ids in a .npy or .i32 file.")
]
Prompt = Annotated[
    str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="A text; -: stdin.")
]
Special = Annotated[
    bool, typer.Option("--special/--no-special", help="Control tokens written in it count.")
]
Last = Annotated[bool, typer.Option("--last", help="Of the last token alone.")]


def command(
    model: options.ModelOptions,
    context: options.ContextOptions,
    tokens: Tokens = None,
    tokens_file: TokensFile = None,
    prompt: Prompt = None,
    special: Special = False,
    last: Last = False,
    output: options.Output = None,
    json: options.Json = False,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Write float32 [n_tokens, n_vocab] to OUT.npy (-o -: stdout)."""
    options.begin(verbose=verbose, json=json, strict=strict)
    if output is None:
        raise UsageError("where to? give -o OUT.npy (or -o - for stdout)")
    if json and output == "-":
        raise UsageError("--json and the array cannot both go to stdout: give -o OUT.npy")
    if sum(given is not None for given in (tokens, tokens_file, prompt)) != 1:
        raise UsageError("give one of --tokens, --tokens-file and -p")
    with options.open_model(model, threads=context.threads) as opened:
        ids = _ids(opened, tokens, tokens_file, prompt, special)
        end = _write(opened, ids, output, _settings(context, last))
        repack = opened.repacked.facts()
    if json:
        _print_json(end, output, ids, repack)


def _ids(
    model: Any, tokens: str | None, tokens_file: str | None, prompt: str | None, special: bool
) -> list[int]:
    from llamapy.app.generate import prompt_ids
    from llamapy.app.logits import parse_tokens, read_tokens

    if tokens is not None:
        return parse_tokens(tokens)
    if tokens_file is not None:
        return read_tokens(Path(tokens_file))
    assert prompt is not None
    raw = streams.read_stdin() if prompt == "-" else prompt.encode("utf-8", "surrogateescape")
    return prompt_ids(model.tokenizer, raw, parse_special=special)


def _settings(context: options.ContextOptions, last: bool) -> LogitsSettings:
    from llamapy.app.logits import LogitsSettings

    return LogitsSettings(
        last=last,
        **context.settings(),
    )


def _write(model: Any, ids: list[int], output: str, settings: LogitsSettings) -> Written:
    from llamapy.app.generate import Prefill
    from llamapy.app.logits import write_logits
    from llamapy.base.atomic import atomic_write

    with Progress("tokens", shown=not log.json) as progress:
        if output == "-":
            events = list(write_logits(model, ids, sys.stdout.buffer, settings))
        else:
            events = []
            with atomic_write(output) as f:
                for event in write_logits(model, ids, f, settings):
                    events.append(event)
                    if isinstance(event, Prefill):
                        progress.update(event.done, event.total)
    end = events[-1]
    assert not isinstance(end, Prefill)
    log.info(f"wrote float32 {list(end.shape)}, graphs {end.n_built} built {end.n_reused} reused")
    return end


def _print_json(end: Written, output: str, ids: list[int], repack: dict[str, Any]) -> None:
    fields = {
        "schema_version": 1,
        "command": "logits",
        "path": output,
        "shape": list(end.shape),
        "ids": ids,
        "n_ctx": end.n_ctx,
        "isa": end.isa,
        "threads": end.n_threads,
        "repack": repack,
        "graph": {"built": end.n_built, "reused": end.n_reused},
        "warnings": log.warned,
    }
    with streams.answer_to(None) as out:
        out.write(jsonlib.dumps(fields) + "\n")
