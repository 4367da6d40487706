"""How much memory there is: of the machine, available now, and what cgroups allow."""

from __future__ import annotations

from pathlib import Path

NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near the largest


def meminfo(root: Path = Path("/")) -> dict[str, int]:
    """/proc/meminfo in bytes by name; empty where there is none."""
    fields = {}
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        fields[name] = int(rest.split()[0]) * 1024 if rest.split() else 0
    return fields


def cgroup_memory(root: Path = Path("/")) -> int | None:
    """The least memory limit of this process's cgroups (v1 or v2) and their parents."""
    mounts = root / "sys/fs/cgroup"
    limits = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = mounts / controllers
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        folder = top if ".." in group else top / group.lstrip("/")
        for at in (folder, *folder.parents):
            if at.is_relative_to(top):
                limits.append(_text(at / name))
    numbers = [int(text) for text in limits if text.isdigit()]
    return min((n for n in numbers if n < NO_LIMIT), default=None)


def available(root: Path = Path("/")) -> int | None:
    """Bytes that this process may still take without pushing others out; None where the system does
    not tell. What a cgroup has used already is not counted."""
    known = [n for n in (meminfo(root).get("MemAvailable"), cgroup_memory(root)) if n is not None]
    return min(known, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
