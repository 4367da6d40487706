"""Options that several commands share, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.base.paths import DEMO, KNOWN, find_model
from llamapy.base.types import CACHE_TYPES
from llamapy.cli.progress import Progress
from llamapy.cli.streams import answer_to

if TYPE_CHECKING:
    from llamapy.loader.place_flags import PlaceFlags

_CACHED = ", ".join(CACHE_TYPES)
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout; errors as JSON.")]
Verbose = Annotated[
    int, typer.Option("-v", "--verbose", count=True, show_default=False, help="Say more on stderr.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Warnings are errors.")]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write there, whole or not at all."),
]
Model = Annotated[
    str | None,
    typer.Option("-m", "--model", metavar="FILE", help="GGUF file, or the name of a pulled model."),
]
LoadMode = Annotated[
    str, typer.Option("-lm", "--load-mode", metavar="MODE", help="mmap, read or mmap+mlock.")
]
Repack = Annotated[
    str | None,
    typer.Option("--repack", metavar="WHEN", help="Interleave rows of weights: [auto], on, off."),
]
Overcommit = Annotated[
    bool, typer.Option("--overcommit", help="Go on even if memory is too small.")
]


def _list_devices(asked: bool) -> None:
    """Print the devices, best first, and end."""
    if not asked:
        return
    from llamapy.base.threads import default_threads
    from llamapy.devices.cpu import CpuDevice

    with answer_to(None) as out:
        for device in (CpuDevice(default_threads().n),):
            free, total = device.memory()
            out.write(
                f"{device.name}: {device.description}"
                f" ({total / 2**20:.0f} MiB, {free / 2**20:.0f} MiB free)\n"
            )
    raise typer.Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Which model, and where its weights go."""

    model: Model = None
    gpu_layers: Annotated[
        str,
        typer.Option(
            "-ngl",
            "--gpu-layers",
            "--n-gpu-layers",
            metavar="N",
            help="Layers on devices, or 'all'.",
        ),
    ] = "auto"
    override_tensor: Annotated[
        list[str] | None,
        typer.Option("-ot", "--override-tensor", metavar="RE=BUFT", help="Place these tensors."),
    ] = None
    device: Annotated[
        str | None,
        typer.Option("-dev", "--device", metavar="A,B", help="Devices to use; 'none': the CPU."),
    ] = None
    list_devices: Annotated[
        bool,
        typer.Option(
            "--list-devices", callback=_list_devices, is_eager=True, help="List them and end."
        ),
    ] = False
    split_mode: Annotated[
        str, typer.Option("-sm", "--split-mode", metavar="MODE", help="Over devices: layer, none.")
    ] = "layer"
    tensor_split: Annotated[
        str | None,
        typer.Option("-ts", "--tensor-split", metavar="A,B", help="Shares of the devices."),
    ] = None
    main_gpu: Annotated[
        int, typer.Option("-mg", "--main-gpu", metavar="I", help="The device of -sm none.")
    ] = 0
    cpu_moe: Annotated[bool, typer.Option("-cmoe", "--cpu-moe", help="All experts on the CPU.")] = (
        False
    )
    n_cpu_moe: Annotated[
        int, typer.Option("-ncmoe", "--n-cpu-moe", metavar="N", help="Those of N layers.")
    ] = 0
    n_cpu_ffn: Annotated[
        int, typer.Option("-ncffn", "--n-cpu-ffn", metavar="N", help="Feed-forward of N layers.")
    ] = 0
    load_mode: LoadMode = "mmap"
    repack: Repack = None
    overcommit: Overcommit = False
    pre: Annotated[
        str | None,
        typer.Option("--pre", metavar="NAME", help="Pre-tokenizer, over the file's own."),
    ] = None
    lenient: Annotated[
        bool, typer.Option("--lenient", help="Only warn of unknown tensors, pre-tokenizer.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextOptions:
    """The sizes and threads of a context."""

    ctx_size: Annotated[
        int | None,
        typer.Option(
            "-c", "--ctx-size", metavar="N", min=0, help="Context; 0: as trained. Default: enough."
        ),
    ] = None
    batch_size: Annotated[
        int, typer.Option("-b", "--batch-size", metavar="N", min=1, help="Tokens per call.")
    ] = 2048
    ubatch_size: Annotated[
        int, typer.Option("-ub", "--ubatch-size", metavar="N", min=1, help="Tokens per graph.")
    ] = 512
    threads: Annotated[
        int | None,
        typer.Option("-t", "--threads", metavar="N", help="Default: what the CPU allows."),
    ] = None
    threads_batch: Annotated[
        int | None,
        typer.Option("-tb", "--threads-batch", metavar="N", help="For prompts. Default: as -t."),
    ] = None
    cache_type_k: Annotated[
        str, typer.Option("-ctk", "--cache-type-k", metavar="TYPE", help=f"K: {_CACHED}.")
    ] = "f16"
    cache_type_v: Annotated[
        str, typer.Option("-ctv", "--cache-type-v", metavar="TYPE", help="V: likewise.")
    ] = "f16"

    def settings(self, n_ctx: int | None = None) -> dict[str, Any]:
        """The fields of a job's ContextSettings; `n_ctx` where -c is not given."""
        return {
            "n_ctx": n_ctx if self.ctx_size is None else self.ctx_size,
            "n_batch": self.batch_size,
            "n_ubatch": self.ubatch_size,
            "n_threads": self.n_threads(),
            "n_threads_batch": self.n_threads_batch(),
            "type_k": self.cache_type_k,
            "type_v": self.cache_type_v,
        }

    def n_threads(self) -> int | None:
        """-t, where 0 and negative numbers mean the default, as for llama-cli."""
        return _threads("-t", self.threads)

    def n_threads_batch(self) -> int | None:
        """-tb, likewise."""
        return _threads("-tb", self.threads_batch)


def _threads(flag: str, given: int | None) -> int | None:
    if given is None or given <= 0:
        return None
    from llamapy.base.threads import read

    readings = read()
    budget = len(readings.cores)
    if readings.quota is not None:
        budget = min(budget, max(1, int(readings.quota)))
    if given > budget:
        log.warn("W03", f"{flag} {given}: this process may use {budget} CPUs; more threads wait")
    return given


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


def open_model(o: ModelOptions, threads: int | None = None) -> Any:
    """An open `llamapy.api.Model`. `threads` repack its weights."""
    path = resolve_model(o.model)
    from llamapy.api import Model

    with Progress("loading", "bytes", shown=not log.json) as progress:
        return Model.open(
            path,
            load_mode=o.load_mode,
            place_flags=place_flags(o),
            pre=o.pre,
            lenient=o.lenient,
            repack=o.repack,
            n_threads=threads,
            overcommit=o.overcommit,
            progress=progress.stages,
        )


def place_flags(o: ModelOptions) -> PlaceFlags:
    """The flags of placement, read."""
    from llamapy.loader.place_flags import (
        PlaceFlags,
        parse_devices,
        parse_layers,
        parse_overrides,
        parse_split,
    )

    overrides = [pair for text in o.override_tensor or () for pair in parse_overrides(text)]
    return PlaceFlags(
        n_gpu_layers=parse_layers(o.gpu_layers),
        overrides=tuple(overrides),
        split_mode=o.split_mode,
        tensor_split=() if o.tensor_split is None else parse_split(o.tensor_split),
        devices=None if o.device is None else parse_devices(o.device),
        main_gpu=o.main_gpu,
        cpu_moe=o.cpu_moe,
        n_cpu_moe=o.n_cpu_moe,
        n_cpu_ffn=o.n_cpu_ffn,
    )
