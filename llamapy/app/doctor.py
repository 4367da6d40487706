"""What this machine offers, what was chosen and why: facts as data, nothing heavy imported."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import llamapy
from llamapy.base import flags, threads
from llamapy.base.errors import LlamapyError
from llamapy.base.memory import cgroup_limit, meminfo
from llamapy.base.paths import KNOWN, cache_dir, find_model, models_dir

PACKAGES = ("numpy", "tokenizers", "sentencepiece", "typer", "rich", "huggingface_hub")


def report() -> dict[str, Any]:
    """Sections by name. `problems` lists what keeps llamapy from running."""
    problems: list[str] = []
    return {
        "llamapy": llamapy.__version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip() or "unknown",
        "packages": {name: _version(name) for name in PACKAGES},
        "library": _library(problems),
        "threads": _threads(),
        "memory": _memory(),
        "cache": _cache(),
        "environment": {f.name: os.environ.get(f.name) or None for f in flags.FLAGS},
        "problems": problems,
    }


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _library(problems: list[str]) -> dict[str, Any]:
    """Where the native library is, and what of it this CPU may run."""
    from llamapy.ffi import lib

    path = lib.library_path()
    try:
        library = lib.load()
        isas = lib.isa_report()
    except LlamapyError as e:
        problems.append(str(e))
        return {"path": str(path), "loaded": False, "error": str(e)}
    return {
        "path": str(path),
        "loaded": True,
        "abi": lib.ABI,
        "kernels": len(library.kernels),
        "cpu": list(lib.features()),
        "instruction_sets": [
            {"name": i.isa, "state": i.state, "kernels": i.n_kernels, "reason": i.reason}
            for i in isas
        ],
    }


def _threads() -> dict[str, Any]:
    readings = threads.read()
    chosen = threads.default_threads()
    return {
        "chosen": chosen.n,
        "reason": chosen.reason,
        "cpus_allowed": len(readings.cores),
        "physical_cores": len(set(readings.cores.values())),
        "cgroup_quota_cpus": readings.quota,
    }


def _memory(root: Path = Path("/")) -> dict[str, int | None]:
    """Bytes: of the machine, available now, and the least limit of our cgroups."""
    fields = meminfo(root)
    return {
        "total_bytes": fields.get("MemTotal"),
        "available_bytes": fields.get("MemAvailable"),
        "cgroup_limit_bytes": cgroup_limit(root),
    }


def _cache() -> dict[str, Any]:
    models = {}
    for name, model in KNOWN.items():
        found = find_model(model)
        models[name] = str(found) if found else None
    return {"folder": str(cache_dir()), "models_folder": str(models_dir()), "models": models}
