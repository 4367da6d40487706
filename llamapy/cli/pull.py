"""`llamapy pull`: fetch a model into the cache; its path is the answer."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from llamapy.app import pull as app
from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.base.paths import KNOWN, find_model
from llamapy.cli import options
from llamapy.cli.progress import Progress
from llamapy.cli.streams import answer_to

Name = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", help="demo, gemma3-270m, or hf:USER/REPO[:QUANT]."),
]
List = Annotated[bool, typer.Option("--list", help="The models known by a short name.")]


def command(
    name: Name = None,
    list_: List = False,
    json: options.Json = False,
    verbose: options.Verbose = 0,
) -> None:
    """Fetch a model into the models folder (LLAMAPY_CACHE moves it) and print its path."""
    options.begin(verbose=verbose, json=json)
    if list_:
        _print_known(json)
        return
    if name is None:
        raise UsageError(f"which model? One of {', '.join(KNOWN)}, or hf:USER/REPO[:QUANT]")
    pulled = _follow(name)
    with answer_to(None) as out:
        if json:
            fields = {
                "schema_version": 1,
                "command": "pull",
                "path": str(pulled.path),
                "size_bytes": pulled.size_bytes,
                "sha256": pulled.sha256,
                "already": pulled.already,
            }
            out.write(jsonlib.dumps(fields) + "\n")
        else:
            out.write(f"{pulled.path}\n")


def _follow(name: str) -> app.Pulled:
    end: app.Pulled | None = None
    with Progress("writing", "bytes", shown=not log.json) as progress:
        for event in app.pull(name):
            match event:
                case app.Step(text, minor):
                    (log.info if minor else log.note)(text)
                case app.Copied(done, total):
                    progress.update(done, total)
                case app.Pulled():
                    end = event
    assert end is not None
    return end


def _print_known(json: bool) -> None:
    rows = [
        {"name": m.name, "about": m.about, "path": str(path) if (path := find_model(m)) else None}
        for m in KNOWN.values()
    ]
    with answer_to(None) as out:
        if json:
            out.write(jsonlib.dumps({"schema_version": 1, "command": "pull", "known": rows}) + "\n")
            return
        for row in rows:
            out.write(f"{row['name']:<12} {row['about']}: {row['path'] or 'not fetched'}\n")
