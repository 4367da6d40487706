"""`llamapy graph`: the planned graph of a model, as it would run."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from llamapy.base.errors import UsageError
from llamapy.cli import options, streams

KINDS = ("decode", "prompt")
FORMATS = ("text", "dot", "json")

Kind = Annotated[
    str, typer.Option("--kind", metavar="KIND", help="decode (one token) or prompt (a ubatch).")
]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="text, dot or json.")]
Json = Annotated[bool, typer.Option("--json", help="As --format json; errors as JSON.")]


def command(
    model: options.ModelOptions,
    context: options.ContextOptions,
    kind: Kind = "decode",
    format: Format = "text",
    json: Json = False,
    output: options.Output = None,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Print nodes, shapes, offsets, buffers, devices, causes and fusions of the planned graph."""
    options.begin(verbose=verbose, json=json, strict=strict)
    format = "json" if json else format
    for name, value, allowed in (("--kind", kind, KINDS), ("--format", format, FORMATS)):
        if value not in allowed:
            raise UsageError(f"{name} {value}: must be one of {', '.join(allowed)}")
    with options.open_model(model) as opened:
        train = opened.hparams.n_ctx_train
        sizes = context.settings() | {"n_ctx": context.ctx_size or min(train, 4096)}
        with opened.context(**sizes) as ctx:
            text = ctx.dump_graph(kind=kind, format=format)
    if format == "json":
        head = {"schema_version": 1, "command": "graph"}
        text = jsonlib.dumps({**head, **jsonlib.loads(text)})
    with streams.answer_to(output) as out:
        out.write(text.rstrip("\n") + "\n")
