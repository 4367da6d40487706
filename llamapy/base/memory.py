"""How much memory is there: of the machine, and what control groups grant of it. In bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from llamapy.base import cgroup

NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near the largest
# What a group's limit and its use are called, for v2 and v1.
_V2 = ("memory.max", "memory.current")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def meminfo(root: Path = Path("/")) -> dict[str, int]:
    """The machine's counters by the names that Linux gives them; empty elsewhere."""
    fields = {}
    for line in cgroup.text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0]) * 1024 if rest.split() else 0
    return fields


def available_bytes(root: Path = Path("/")) -> int | None:
    """What may still be asked for without pushing out what others use, by the machine and by each
    control group; cached files do not count as used. None where the system does not tell."""
    rest = [n for n in [meminfo(root).get("MemAvailable")] if n is not None]
    for folder, (limit_name, used_name) in _groups(root):
        limit, used = cgroup.text(folder / limit_name), cgroup.text(folder / used_name)
        if limit.isdigit() and used.isdigit() and int(limit) < NO_LIMIT:
            rest.append(max(int(limit) - int(used) + _cached(folder), 0))
    return min(rest, default=None)


def own_bytes(root: Path = Path("/")) -> int:
    """What this process has taken of that itself, by now; 0 where the system does not tell."""
    return _own("RssAnon", root) or 0


def peak_bytes(root: Path = Path("/")) -> int | None:
    """The most that this process has had resident, pages of files among it."""
    return _own("VmHWM", root)


def _own(field: str, root: Path) -> int | None:
    for line in cgroup.text(root / "proc/self/status").splitlines():
        name, _, rest = line.partition(":")
        if name == field and rest.split():
            return int(rest.split()[0]) * 1024
    return None


def cgroup_limit(root: Path = Path("/")) -> int | None:
    """The least memory limit of this process's cgroups (v1 or v2) and their parents."""
    texts = [cgroup.text(folder / limit_name) for folder, (limit_name, _) in _groups(root)]
    numbers = [int(text) for text in texts if text.isdigit()]
    return min((n for n in numbers if n < NO_LIMIT), default=None)


def _groups(root: Path) -> Iterator[tuple[Path, tuple[str, str]]]:
    mounts = root / "sys/fs/cgroup"
    for controllers, group in cgroup.memberships(root):
        if controllers in ("", "memory"):
            for folder in cgroup.upwards(mounts / controllers, group):
                yield folder, _V1 if controllers else _V2


def _cached(folder: Path) -> int:
    """Pages of files, which the system drops when it needs memory; v1 counts those of the groups
    inside, which count as used, apart."""
    stat: dict[str, int] = {}
    for line in cgroup.text(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if value.isdigit():
            stat[name] = int(value)
    names = ("inactive_file", "active_file")
    return sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in names)


def in_units(n: int) -> str:
    """`1.5 GiB`: bytes for people."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if n >= size:
            return f"{n / size:.1f} {unit}"
    return f"{n} bytes"
