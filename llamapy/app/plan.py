"""What a model and a context of it take of memory, against what there is. Only the header is read.

`peak` is what a run has touched at its highest, when its context is full: weights, the forms of
them that generation makes (`--repack`), cache, compute buffers, threads' scratch, rows of logits
handed out, and the program. The program (interpreter, modules, tables of the vocabulary) is an
estimate from what they took when measured, all else is counted. `needs` is what has to fit: the
peak, without what is made only when there is room.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict, dataclass
from typing import Any

from llamapy.app.sizes import ContextSettings
from llamapy.base.memory import available_bytes, cgroup_limit, meminfo, own_bytes
from llamapy.graph.device import Device
from llamapy.loader.place import CPU
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.repack import asked_for
from llamapy.loader.values import StringArray
from llamapy.loader.words import one_line
from llamapy.runtime.params import MAX_CTX, ContextParams
from llamapy.runtime.planned import Planned
from llamapy.runtime.room import ContextBytes, largest_ctx

SCHEMA_VERSION = 1
# Of CPython 3.11, numpy and the modules of a run, resident; of the tables that text is read with,
# per token and per merge; and of what making those of merges leaves behind.
PROGRAM_BYTES, TOKEN_BYTES, MERGES_BYTES = 41_000_000, 300, 6_000_000
SHOWN = (
    "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "type_k", "type_v", "n_threads", "n_threads_batch",
)  # fmt: skip
PARTS = ("in_place", "copied", "interleaved", "cache", "compute", "scratch", "output", "program")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings(ContextSettings):
    """`n_parallel` sequences share the context; `n_outputs` rows of logits are made per graph, 0:
    one of each sequence."""

    n_parallel: int = 1
    n_outputs: int = 0
    load_mode: str = "mmap"
    repack: str | None = None


def plan(
    path: str | os.PathLike[str],
    settings: PlanSettings,
    flags: PlaceFlags,
    *,
    lenient: bool = False,
) -> dict[str, Any]:
    """A dictionary that JSON can hold. Raises what opening the model and its context would."""
    s = settings
    with Planned(path, flags, s.load_mode, lenient=lenient) as model:
        hp = model.laid.hparams
        params = _params(hp.n_ctx_train, s)
        host = _Host.of(model, s, params)
        available = _available()
        taken = model.context(params, s.n_outputs)
        devices = [_other(device, model, taken) for device in model.others]
        devices.append(host.row(taken, available))

        def needs(n_ctx: int) -> int:
            sizes = _params(hp.n_ctx_train, s, n_ctx)
            found: int = host.row(model.context(sizes, s.n_outputs), None)["needs_bytes"]
            return found

        most = min(max(hp.n_ctx_train, params.n_ctx), MAX_CTX)
        rows = max(s.n_outputs, s.n_parallel)
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "plan",
            "path": one_line(model.files.path),
            "architecture": hp.arch,
            "params": _asked(params) | {"n_outputs": rows, "load_mode": s.load_mode},
            "n_ctx_train": hp.n_ctx_train,
            "repack": host.choice,
            "devices": devices,
            "placement": [row._asdict() for row in model.laid.placement.table()],
            "cgroup_limit_bytes": cgroup_limit(),
            "machine_bytes": meminfo().get("MemTotal"),
            "fits": all(d["fits"] for d in devices),
            "largest_ctx": None if available is None else largest_ctx(needs, available, most),
            "flags": _flags(params, s, host.choice, model.laid.placement.flags),
            "notes": model.laid.notes,
        }


@dataclass(frozen=True, slots=True)
class _Host:
    """What the CPU's memory holds besides the context. `early`: what it holds before there is one,
    while all weights are made again at once; `optional`: bytes of `parts` that are made only if
    there is room."""

    choice: str
    parts: dict[str, int]
    early: int
    optional: int

    @classmethod
    def of(cls, model: Planned, s: PlanSettings, params: ContextParams) -> _Host:
        choice = asked_for(s.repack)
        made, replaced = model.interleaved(choice, params.n_threads)
        in_place, copied = model.in_place.get(CPU, 0), model.copied.get(CPU, 0)
        program, tables = _program(model)
        early = program + in_place + copied + made
        if choice == "on":  # the pages, or copies, of the others are given back at once
            in_place, copied = (in_place - replaced, 0) if not copied else (0, copied - replaced)
        parts = {
            "in_place": in_place,
            "copied": copied,
            "interleaved": made,
            "program": program + tables,
        }
        return cls(choice, parts, early, made if choice == "auto" else 0)

    def row(self, taken: ContextBytes, available: int | None) -> dict[str, Any]:
        parts = self.parts | {
            "cache": taken.cache,
            "compute": taken.compute[CPU],
            "scratch": taken.scratch,
            "output": taken.output,
        }
        early = self.early if self.choice == "on" else 0
        return _row(CPU, parts, early, self.optional, available)


def _params(n_ctx_train: int, s: PlanSettings, n_ctx: int | None = None) -> ContextParams:
    sizes = s.of_context(n_ctx=n_ctx or s.n_ctx, n_seq_max=s.n_parallel)
    return ContextParams.of(n_ctx_train, **sizes)


def _asked(params: ContextParams) -> dict[str, Any]:
    return {name: value for name, value in asdict(params).items() if name in SHOWN}


def _program(model: Planned) -> tuple[int, int]:
    """Estimated: with what is read of the files' headers, and the tables of the vocabulary."""
    keys = model.files.keys
    names = ("tokenizer.ggml.tokens", "tokenizer.ggml.merges")
    lists = (keys.get(name) for name in names)
    tokens, merges = (len(v) if isinstance(v, StringArray) else 0 for v in lists)
    heads = sum(shard.data_offset for shard in model.files.shards)
    tables = TOKEN_BYTES * (tokens + merges) + (MERGES_BYTES if merges else 0)
    return PROGRAM_BYTES + heads, tables


def _available() -> int | None:
    """What a run that starts now would find: this process will be gone."""
    n = available_bytes()
    return None if n is None else n + own_bytes()


def _other(device: Device, model: Planned, taken: ContextBytes) -> dict[str, Any]:
    """One that is not the CPU says itself how much it has left."""
    parts = {
        "copied": model.weights_on(device.name),
        "compute": taken.compute.get(device.name, 0),
    }
    return _row(device.name, parts, 0, 0, device.memory()[0])


def _row(
    device: str, parts: dict[str, int], early: int, optional: int, available: int | None
) -> dict[str, Any]:
    peak = max(sum(parts.values()), early)
    return {
        "device": device,
        **{f"{part}_bytes": parts.get(part, 0) for part in PARTS},
        "needs_bytes": peak - optional,
        "peak_bytes": peak,
        "available_bytes": available,
        "fits": available is None or peak - optional <= available,
    }


def _flags(p: ContextParams, s: PlanSettings, choice: str, placed: PlaceFlags) -> list[str]:
    """Arguments that ask for exactly this, on any machine."""
    return [
        *("--ctx-size", str(p.n_ctx)),
        *("--batch-size", str(p.n_batch)),
        *("--ubatch-size", str(p.n_ubatch)),
        *("--threads", str(p.n_threads)),
        *("--threads-batch", str(p.n_threads_batch)),
        *("--cache-type-k", p.type_k),
        *("--cache-type-v", p.type_v),
        *(("--parallel", str(p.n_seq_max)) if p.n_seq_max > 1 else ()),
        *("--load-mode", s.load_mode),
        *("--repack", choice),
        *placed.argv(),
    ]


def command_line(found: dict[str, Any]) -> str:
    """As a shell reads it."""
    return shlex.join(["-m", found["path"], *found["flags"]])
