"""Names out of a file and paths as parts of a message of one line."""

from __future__ import annotations

import os


def text(raw: bytes | memoryview) -> str:
    """UTF-8; a byte that is none is shown as an escape such as \\xff."""
    return str(raw, "utf-8", "backslashreplace")


def shown(name: object, limit: int = 80) -> str:
    """Quoted, on one line, not endless."""
    s = str(name)
    return repr(s if len(s) <= limit else s[:limit] + "...")


def one_line(path: str | os.PathLike[str]) -> str:
    name = text(os.fsencode(path))
    return name if name.isprintable() else repr(name)[1:-1]
