"""`run --json`: one object, and with `--json-stream` one per event. SCHEMA_VERSION goes up when a
field changes its meaning or goes away; new fields may come at any time."""

from __future__ import annotations

import base64
import math
from dataclasses import asdict
from typing import Any

import llamapy
from llamapy.app.diffusion import Step
from llamapy.app.generate import Event, Finished, Prefill, Settings, Started, Token
from llamapy.base.memory import peak_bytes

SCHEMA_VERSION = 1


def result(
    started: Started, end: Finished, settings: Settings, model: dict[str, Any], load_s: float
) -> dict[str, Any]:
    """The whole outcome. `model` is path, architecture and hash."""
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "run",
        "text": end.text,
        **({"text_base64": base64.b64encode(end.raw).decode()} if end.replaced else {}),
        "ids": end.ids,
        "finish_reason": end.reason,
        "stop": None if end.stop is None else end.stop.decode("utf-8", "replace"),
        "truncated": started.dropped is not None,
        "dropped_tokens": None if started.dropped is None else list(started.dropped),
        "counts": {
            "prompt": end.n_prompt,
            "cached": end.n_cached,
            "generated": end.n_generated,
        },
        "timings": timings(end, load_s),
        "seed": end.seed,
        "params": params(started, settings),
        "model": model,
        "isa": end.isa,
        "threads": end.n_threads,
        "graph": {"built": end.n_built, "reused": end.n_reused},
        "build": {"llamapy": llamapy.__version__},
    }


def memory(model: Any, end: Finished) -> dict[str, int | None]:
    """What `plan` counts, as it came to be, and the most that the process had resident."""
    cache = end.buffers.get("kv", 0)
    return {
        "weights_bytes": model.weights.n_bytes,
        "interleaved_bytes": model.repacked.n_bytes,
        "cache_bytes": cache,
        "compute_bytes": sum(end.buffers.values()) - cache,
        "peak_bytes": peak_bytes(),
    }


def timings(end: Finished, load_s: float) -> dict[str, float | None]:
    """Milliseconds by phase, and tokens per second of the prompt and of the decode steps (the first
    token comes with the prompt)."""
    s = end.seconds
    steps = max(end.n_generated - 1, 0)
    return {
        "load_ms": round(load_s * 1e3, 3),
        **{f"{name}_ms": round(value * 1e3, 3) for name, value in s.items()},
        "prompt_per_s": _rate(end.n_prompt - end.n_cached, s["prompt"]),
        "decode_per_s": _rate(steps, s["decode"]),
    }


def _rate(n: int, seconds: float) -> float | None:
    return round(n / seconds, 2) if n and seconds else None


def params(started: Started, settings: Settings) -> dict[str, Any]:
    """What was in effect, chosen or default."""
    values = asdict(settings) | {"n_ctx": started.n_ctx, "n_max": started.n_max}
    return {str(k): plain(v) for k, v in (values | {"sampling": started.sampling}).items()}


def event(e: Event) -> dict[str, Any]:
    """One line of `--json-stream`; the last is the whole result and comes from `result`."""
    match e:
        case Started():
            return {"event": "started", "prompt": len(e.ids), "n_ctx": e.n_ctx}
        case Prefill():
            return {"event": "prefill", "done": e.done, "total": e.total}
        case Step():
            return {"event": "step", "done": e.done, "total": e.total}
        case Token():
            return {"event": "token", "id": e.id, "text": e.text}
        case Finished():
            return {"event": "rest", "text": e.rest}


def plain(value: Any) -> Any:
    """Tuples as lists, bytes as text, keys as text, infinities by name: what JSON can hold."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
