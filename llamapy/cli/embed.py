"""`llamapy embed`: texts as vectors, one a line."""

from __future__ import annotations

import json as jsonlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.progress import Progress

if TYPE_CHECKING:
    from llamapy.app.embed import Embedded, EmbedSettings

Prompt = Annotated[
    list[str] | None,
    typer.Option("-p", "--prompt", metavar="TEXT", help="A text; may be given again."),
]
TextFile = Annotated[
    str | None, typer.Option("-f", "--file", metavar="FILE", help="A text per line; -: stdin.")
]
Pooling = Annotated[
    str | None,
    typer.Option("--pooling", metavar="HOW", help="none, mean, cls, last, rank. Default: file's."),
]
Normalize = Annotated[str, typer.Option("--normalize", metavar="NORM", help="l2, l1, max or none.")]
Special = Annotated[
    bool, typer.Option("--special/--no-special", help="Control tokens written in it count.")
]


def command(
    model: options.ModelOptions,
    context: options.ContextOptions,
    prompt: Prompt = None,
    file: TextFile = None,
    pooling: Pooling = None,
    normalize: Normalize = "l2",
    special: Special = False,
    output: options.Output = None,
    json: options.Json = False,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Write the embedding of each text on a line: numbers, or with --json an object.

    With --pooling none a text has a line (or a list) per token; with rank it may be a question and
    a document with a tab between them.
    """
    options.begin(verbose=verbose, json=json, strict=strict)
    texts = _texts(prompt, file)
    settings = _settings(context, pooling, normalize, special)
    with options.open_model(model, threads=context.threads) as opened:
        _write(opened, texts, settings, output, json)


def _texts(prompts: list[str] | None, file: str | None) -> list[bytes]:
    if prompts and file is not None:
        raise UsageError("give -p or -f, not both")
    if prompts:
        return [p.encode("utf-8", "surrogateescape") for p in prompts]
    raw = streams.read_stdin() if file in (None, "-") else streams.read_file(str(file))
    lines = [line.removesuffix(b"\r") for line in raw.split(b"\n")]
    return lines[:-1] if lines[-1] == b"" else lines


def _settings(
    context: options.ContextOptions, pooling: str | None, normalize: str, special: bool
) -> EmbedSettings:
    from llamapy.app.embed import EmbedSettings

    return EmbedSettings(
        pooling=pooling,
        normalize=normalize,
        special=special,
        **context.settings(),
    )


def _write(
    model: Any, texts: list[bytes], settings: EmbedSettings, output: str | None, json: bool
) -> None:
    from llamapy.app.embed import embed_texts

    with streams.answer_to(output) as out, Progress("texts", shown=not log.json) as progress:
        for one in embed_texts(model, texts, settings):
            if one.index == 0:
                tell = log.note if settings.pooling is None else log.info
                tell(f"pooling {one.pooling}, normalize {one.normalize}")
            out.write(as_json(one) if json else as_lines(one))
            progress.update(one.index + 1, one.n_texts)


def as_lines(one: Embedded) -> str:
    """A line per vector, as many digits as float32 has."""
    rows = one.values.reshape(-1, one.values.shape[-1]).tolist()
    return "".join(" ".join(f"{x:.9g}" for x in row) + "\n" for row in rows)


def as_json(one: Embedded) -> str:
    fields = {
        "schema_version": 1,
        "command": "embed",
        "index": one.index,
        "n_tokens": one.n_tokens,
        "pooling": one.pooling,
        "normalize": one.normalize,
        "embedding": _short(one.values.tolist()),
        "warnings": log.warned,
    }
    return jsonlib.dumps(fields) + "\n"


def _short(x: Any) -> Any:
    return [_short(y) for y in x] if isinstance(x, list) else float(f"{x:.9g}")
