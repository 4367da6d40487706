"""Under what conditions figures were taken: they mean little without them."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Any

import llamapy
from llamapy.base import flags, threads
from llamapy.ffi.lib import features, isa_report


def conditions(root: Path = Path("/")) -> dict[str, Any]:
    """CPU, instruction set, what else the machine does now; None for what it does not tell."""
    readings = threads.read(root)
    return {
        "llamapy": llamapy.__version__,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "cpu": cpu_name(root),
        "cpu_features": list(features()),
        "isa": next(line.isa for line in isa_report() if line.state == "chosen"),
        "cpus_allowed": len(readings.cores),
        "physical_cores": len(set(readings.cores.values())),
        "cgroup_quota_cpus": readings.quota,
        "load_average": load_average(),
        "governor": _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "transparent_hugepage": _text(root / "sys/kernel/mm/transparent_hugepage/enabled"),
        "throttled_us": throttled_us(root),
        "environment": {f.name: os.environ[f.name] for f in flags.FLAGS if f.name in os.environ},
    }


def cpu_name(root: Path = Path("/")) -> str | None:
    """The processor's own name."""
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware"):
            return " ".join(value.split())
    return platform.processor() or None


def load_average() -> list[float] | None:
    """Processes that ran or wanted to, over 1, 5 and 15 minutes."""
    try:
        return [round(v, 2) for v in os.getloadavg()]
    except OSError:
        return None


def throttled_us(root: Path = Path("/")) -> int | None:
    """Microseconds so far for which a quota kept this process's control group from running."""
    for line in (_text(root / "sys/fs/cgroup/cpu.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == "throttled_usec" and value.isdigit():
            return int(value)
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
