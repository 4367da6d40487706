"""Files appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from llamapy.base.errors import LlamapyError, UsageError


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
            with _told(path):
                f.flush()
                os.fsync(f.fileno())
        with suppress(OSError):
            os.chmod(temp, target.stat().st_mode & 0o7777)
        with _told(path):
            os.replace(temp, target)
    except BaseException:
        with suppress(OSError):
            temp.unlink()
        raise
    sync_dir(target.parent)


@contextmanager
def _told(path: str | os.PathLike[str]) -> Iterator[None]:
    """A failure to write as one line."""
    try:
        yield
    except OSError as e:
        raise LlamapyError(f"cannot write to {os.fspath(path)}: {e.strerror}") from e


@contextmanager
def _opened(asked: str | os.PathLike[str], path: Path, flags: int) -> Iterator[BinaryIO]:
    """A failure to close it is told of, unless something else has failed before."""
    try:
        fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as e:
        raise UsageError(f"cannot write {os.fspath(asked)}: {e.strerror}") from e
    f = os.fdopen(fd, "wb")
    try:
        yield f
    except BaseException:
        with suppress(OSError):
            f.close()
        raise
    with _told(asked):
        f.close()


def sync_dir(path: Path) -> None:
    """Make a rename in `path` durable where the system can; elsewhere nothing."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
