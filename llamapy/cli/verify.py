"""`llamapy verify`: whether a file is sound, to the last number, and its checksums."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from llamapy.app.verify.manifest import line
from llamapy.app.verify.verify import Finding, verify
from llamapy.base.errors import FileError
from llamapy.base.log import log
from llamapy.base.memory import in_units
from llamapy.cli import options
from llamapy.cli.progress import Progress
from llamapy.cli.streams import answer_to, printable

File = Annotated[
    str | None,
    typer.Argument(metavar="[FILE]", help="A GGUF file, any shard of one, or its folder."),
]
Check = Annotated[
    str | None,
    typer.Option("--check", metavar="MANIFEST", help="Hold it against llama-gguf-hash's lines."),
]
Tensors = Annotated[
    bool, typer.Option("--tensors", help="Print the hash of each tensor: a manifest.")
]


def command(
    file: File = None,
    check: Check = None,
    tensors: Tensors = False,
    output: options.Output = None,
    json: options.Json = False,
    verbose: options.Verbose = 0,
    strict: options.Strict = False,
) -> None:
    """Look at every byte of a model file: structure, extents, names, every number of every tensor,
    sha256 and hashes. A line for each thing that is wrong; exit code 3 if there is any."""
    options.begin(verbose=verbose, json=json, strict=strict)
    path = options.resolve_model(file)
    found: dict[str, Any] = {}
    with (
        answer_to(output) as out,
        Progress("verify", "bytes", shown=not log.json) as progress,
    ):
        for got in verify(path, check, progress.update):
            progress.clear()
            if not isinstance(got, Finding):
                found = got
            elif not json:
                out.write(f"{printable(got.text)}\n")
        text = jsonlib.dumps(found) if json else "\n".join(lines(found, tensors=tensors))
        out.write(f"{text}\n")
    for note in found["notes"]:
        log.note(note)
    if found["findings"]:
        raise FileError(_wrong(found))


def _wrong(found: dict[str, Any]) -> str:
    n = len(found["findings"])
    more = f" (and {n - 1} more)" if n > 1 else ""
    return f"{found['findings'][0]['text']}{more}"


def lines(found: dict[str, Any], *, tensors: bool) -> Iterator[str]:
    """The text form, after the findings."""
    if tensors:
        for row in found["tensors"]:
            if row["xxh64"]:
                name = f"{found['files'][row['shard']]['path']}:{row['name']}"
                yield line("xxh64", row["xxh64"], printable(name))
        if found["xxh64"]:
            yield line("xxh64", found["xxh64"], printable(found["path"]))
        return
    for row in found["files"]:
        yield f"{row['sha256']}  {printable(row['path'])}"
    size = in_units(sum(row["size_bytes"] for row in found["files"]))
    blocks = sum(row["n_blocks"] for row in found["tensors"] if row["xxh64"])
    read = sum(row["xxh64"] is not None for row in found["tensors"])
    yield f"{size} read, {read} of {len(found['tensors'])} tensors, {blocks} blocks or elements"
    n = len(found["findings"])
    yield "sound" if found["sound"] else f"{n} thing{'s' if n > 1 else ''} wrong"
