"""Files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from llamapy.base.errors import UsageError


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` when the block ends, and never if it raises.

    Written beside the target and renamed, so both are on one file system; a link keeps pointing to
    its target. Something that is no regular file (a terminal, /dev/null) is written directly.
    Raises UsageError naming the path when it cannot be written.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with _opened(path, target, os.O_WRONLY) as f:
            yield f
        return
    temp = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with _opened(path, temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        with suppress(OSError):
            os.chmod(temp, target.stat().st_mode & 0o7777)
        os.replace(temp, target)
    except BaseException:
        with suppress(OSError):
            temp.unlink()
        raise
    sync_dir(target.parent)


def _opened(asked: str | os.PathLike[str], path: Path, flags: int) -> BinaryIO:
    try:
        return os.fdopen(os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666), "wb")
    except OSError as e:
        raise UsageError(f"cannot write {os.fspath(asked)}: {e.strerror}") from e


def sync_dir(path: Path) -> None:
    """Make a rename in `path` durable where the system can; elsewhere nothing."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
