"""Options that several commands share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.base.paths import DEMO, KNOWN, find_model

Model = Annotated[
    str | None,
    typer.Option("-m", "--model", metavar="FILE", help="GGUF file, or the name of a pulled model."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; errors as JSON.")]
Verbose = Annotated[
    int, typer.Option("-v", "--verbose", count=True, show_default=False, help="Say more on stderr.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
Threads = Annotated[
    int | None,
    typer.Option("-t", "--threads", metavar="N", help="Threads. Default: what the CPU allows."),
]
CacheTypeK = Annotated[
    str, typer.Option("-ctk", "--cache-type-k", metavar="TYPE", help="Type of K: f16, f32.")
]
CacheTypeV = Annotated[
    str, typer.Option("-ctv", "--cache-type-v", metavar="TYPE", help="Type of V: f16, f32.")
]
Batch = Annotated[
    int, typer.Option("-b", "--batch-size", metavar="N", min=1, help="Tokens per decode call.")
]
Ubatch = Annotated[
    int, typer.Option("-ub", "--ubatch-size", metavar="N", min=1, help="Tokens per graph.")
]
GpuLayers = Annotated[
    str,
    typer.Option(
        "-ngl",
        "--gpu-layers",
        "--n-gpu-layers",
        metavar="N",
        help="Layers on devices: N, auto, all.",
    ),
]
OverrideTensor = Annotated[
    list[str] | None,
    typer.Option("-ot", "--override-tensor", metavar="RE=BUFT", help="Place matching tensors."),
]
LoadMode = Annotated[
    str, typer.Option("-lm", "--load-mode", metavar="MODE", help="mmap, read or mmap+mlock.")
]
Pre = Annotated[
    str | None, typer.Option("--pre", metavar="NAME", help="Pre-tokenizer, over the file's own.")
]
Lenient = Annotated[
    bool, typer.Option("--lenient", help="Accept an unknown pre-tokenizer, with a warning.")
]


def begin(*, verbose: int, json: bool = False, strict: bool = False) -> None:
    """Set the log up for this command."""
    log.setup(level=verbose, json=json, strict=strict)


def resolve_model(given: str | None) -> Path:
    """The file to open: as given, a known name, or the demo model, which is said on stderr."""
    if given is None:
        found = find_model(DEMO)
        if found is None:
            raise UsageError(
                "no model: give one with -m FILE, or fetch a small one with 'llamapy pull demo'"
            )
        log.note(f"no -m given, using the demo model {found}")
        return found
    path = Path(given)
    if given in KNOWN and not path.exists():
        found = find_model(KNOWN[given])
        if found is None:
            raise UsageError(f"model '{given}' is not here yet: 'llamapy pull {given}' fetches it")
        return found
    return path


def gpu_layers(text: str) -> int:
    """`-ngl`: a number, `all`, or `auto` (as many as fit; with no device but the CPU, none)."""
    if text in ("auto", "all"):
        return -1
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"-ngl takes a number, 'auto' or 'all', got '{text}'") from None
