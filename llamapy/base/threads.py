"""How many threads to use when nobody says, and why.

The least of: CPUs in the affinity set, whole CPUs' worth of time that cgroups grant (at least 1),
physical cores in the affinity set. A second thread on a core's other half slows both down, and a
thread beyond the quota gets all of them stopped for the rest of the period.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from llamapy.base import cgroup, flags


@dataclass(frozen=True, slots=True)
class Readings:
    """`cores` maps each CPU this process may run on to a text that names its physical core.
    `quota`: CPUs' worth of time per period that cgroups grant, None without a limit."""

    cores: dict[int, str]
    quota: float | None


@dataclass(frozen=True, slots=True)
class Threads:
    """`reason` reads on from the number: "2 CPUs allowed, ..."."""

    n: int
    reason: str


def choose(readings: Readings, asked: int | None = None) -> Threads:
    """The number of threads for these readings. `asked`: LLAMAPY_THREADS, which wins."""
    if asked is not None:
        return Threads(asked, f"by LLAMAPY_THREADS={asked}")
    n_cpus = len(readings.cores)
    n_cores = len(set(readings.cores.values()))
    n, reason = n_cores, f"physical cores among the {n_cpus} CPUs allowed"
    if n_cores == n_cpus:
        reason = "CPUs allowed, each a core of its own"
    if readings.quota is not None:
        whole = max(1, int(readings.quota))
        if whole < n:
            quota = f"by a cgroup quota of {readings.quota:g} CPUs"
            n, reason = whole, f"{quota}; without it {n} {reason}"
    return Threads(max(1, n), reason)


def default_threads() -> Threads:
    """For this process, now."""
    return choose(read(), flags.count("LLAMAPY_THREADS"))


def read(root: Path = Path("/")) -> Readings:
    """Readings of this process; files under `root`."""
    if hasattr(os, "sched_getaffinity"):
        cpus = sorted(os.sched_getaffinity(0))
    else:
        cpus = list(range(os.cpu_count() or 1))
    return Readings(read_cores(cpus, root), read_quota(root))


def read_cores(cpus: list[int], root: Path = Path("/")) -> dict[int, str]:
    """CPU to a name of its core; a CPU about which the system says nothing is its own core."""
    cores = {}
    for cpu in cpus:
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = cgroup.text(topology / "core_cpus_list") or cgroup.text(
            topology / "thread_siblings_list"
        )
        cores[cpu] = siblings or str(cpu)
    return cores


def read_quota(root: Path = Path("/")) -> float | None:
    """The least quota of this process's cgroups (v1 or v2) and their parents, in CPUs."""
    mounts = root / "sys/fs/cgroup"
    quotas = []
    for controllers, group in cgroup.memberships(root):
        if controllers == "":
            tops = [mounts, mounts / "unified"]
        elif "cpu" in controllers.split(","):
            tops = [mounts / "cpu", mounts / controllers]
        else:
            continue
        for top in tops:
            quotas += [q for folder in cgroup.upwards(top, group) if (q := _quota_of(folder))]
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    """CPUs granted by one folder: v2 `cpu.max` holds 'quota period' or 'max period'; v1 has two
    files, and -1 for no limit."""
    both = cgroup.text(folder / "cpu.max").split()
    if not both:
        both = [cgroup.text(folder / "cpu.cfs_quota_us"), cgroup.text(folder / "cpu.cfs_period_us")]
    try:
        quota, period = int(both[0]), int(both[1])
    except (ValueError, IndexError):
        return None
    return quota / period if quota > 0 and period > 0 else None
