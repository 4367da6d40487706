"""Control groups as files: which folders say what this process may use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def memberships(root: Path) -> Iterator[tuple[str, str]]:
    """(controllers, group) of this process; v2 names no controllers."""
    for line in text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        yield controllers, group


def upwards(top: Path, group: str) -> Iterator[Path]:
    """The group's folder and its parents up to `top`. Inside a container the group's own path may
    not be there, and `top` is the group."""
    folder = top / group.lstrip("/")
    if ".." in folder.parts:
        folder = top
    while True:
        yield folder
        if folder == top:
            return
        folder = folder.parent


def text(path: Path) -> str:
    """The file's text without white space around it, empty when it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
