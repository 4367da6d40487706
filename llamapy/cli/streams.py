"""The three standard streams: open, UTF-8 whatever the locale, quiet when their reader has gone."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO

from llamapy.base.atomic import atomic_write
from llamapy.base.errors import LlamapyError, UsageError


def prepare() -> None:
    """Open what the caller closed, so that no model file gets descriptor 0, 1 or 2; set UTF-8."""
    for fd, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, flags)  # the lowest free number: fd
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    _utf8(sys.stdout, "surrogateescape")
    _utf8(sys.stderr, "backslashreplace")


def _utf8(stream: TextIO, errors: str) -> None:
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(encoding="utf-8", errors=errors)


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


class Output:
    """Where the answer goes: every write is complete and flushed, or raises.

    BrokenPipeError stays what it is (the command line ends with 141); another failure becomes one
    line for the user.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name

    def write(self, data: bytes | str) -> None:
        raw = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        try:
            self._file.write(raw)
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as e:
            raise LlamapyError(f"cannot write to {self._name}: {e.strerror}") from e


@contextmanager
def answer_to(path: str | None) -> Iterator[Output]:
    """stdout, or `path` written atomically."""
    if path is None or path == "-":
        yield Output(sys.stdout.buffer, "stdout")
        return
    with atomic_write(path) as f:
        yield Output(f, path)


def printable(s: object) -> str:
    """Nothing that a terminal would obey, on one line."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(s))


def read_stdin() -> bytes:
    """All of stdin. At its end already: empty, at once."""
    try:
        return sys.stdin.buffer.read()
    except (OSError, ValueError) as e:
        raise UsageError(f"cannot read stdin: {e}") from e


def read_file(path: str) -> bytes:
    """A text given by the user, byte for byte."""
    try:
        return Path(path).read_bytes()
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror}") from e


def flush_stdout() -> None:
    """What is still buffered. Raises BrokenPipeError, or an error for a full disk."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as e:
        drop_stdout()
        raise LlamapyError(f"cannot write to stdout: {e.strerror}") from e
    except ValueError:
        pass


def drop_stdout() -> None:
    """Nobody reads any more: let the interpreter's last flush go nowhere."""
    _drop(sys.stdout)


def _drop(stream: TextIO) -> None:
    with suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def settle() -> None:
    """What could not be written has been told of: the interpreter's last flush, which would change
    the exit code, has nothing left to fail with."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            _drop(stream)


def disk_full(e: OSError) -> bool:
    return e.errno in (errno.ENOSPC, errno.EDQUOT)


def listen_to_interrupts(on: bool) -> None:
    """Whether Ctrl-C raises KeyboardInterrupt or ends the process at once, as while it starts and
    ends. Where it is ignored, it stays so."""
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, signal.default_int_handler if on else signal.SIG_DFL)


def die_by_interrupt() -> NoReturn:
    """End by SIGINT itself, so that a shell stops its script too; it reports 130."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
    os._exit(130)
