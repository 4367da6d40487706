"""Files appear whole or not at all; what takes long to write may be gone on with."""

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
            _sync(f, path)
        _take_place(path, temp, target)
    except BaseException:
        with suppress(OSError):
            temp.unlink()
        raise


def part_of(path: str | os.PathLike[str]) -> Path:
    """Where `resumable_write` keeps what will be `path`."""
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.name}.part")


@contextmanager
def resumable_write(path: str | os.PathLike[str], *, resume: bool) -> Iterator[BinaryIO]:
    """As `atomic_write`, but what is written stays beside `path`, as `part_of` says, if the block
    raises or the process dies. With `resume` the block gets that file, at its beginning; UsageError
    for one that is there without. Nobody else gets it meanwhile.
    """
    target, part = Path(os.path.realpath(path)), part_of(path)
    if target.exists() and not target.is_file():
        with atomic_write(path) as f:
            yield f
        return
    with _opened(path, part, os.O_WRONLY | os.O_CREAT) as f:
        if not hold(f.fileno()):
            raise UsageError(f"{part}: another process is writing it")
        try:
            if not resume and os.fstat(f.fileno()).st_size:
                raise UsageError(f"{part}: is there already; --resume continues it")
            yield f
        finally:
            if not os.fstat(f.fileno()).st_size:
                part.unlink()
        _sync(f, path)
    _take_place(path, part, target)


def hold(fd: int) -> bool:
    """Whether an open file is ours alone from now on, until it is closed. True where the system has
    no locks."""
    with suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
    return True


def _sync(f: BinaryIO, asked: str | os.PathLike[str]) -> None:
    with _told(asked):
        f.flush()
        os.fsync(f.fileno())


def _take_place(asked: str | os.PathLike[str], temp: Path, target: Path) -> None:
    with suppress(OSError):
        os.chmod(temp, target.stat().st_mode & 0o7777)
    with _told(asked):
        os.replace(temp, target)
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
