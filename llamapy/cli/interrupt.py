"""Ctrl-C while text is generated: the first asks for an end, the second is one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from llamapy.base.errors import LlamapyError
from llamapy.base.log import log
from llamapy.cli.streams import die_by_interrupt

INTERRUPTED = 130


@contextmanager
def interruption(words: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C within ends the command, having said how far it came."""
    try:
        yield
    except (KeyboardInterrupt, LlamapyError) as e:
        if isinstance(e, LlamapyError) and e.exit_code != INTERRUPTED:
            raise
        log.note(f"interrupted: {words()}")
        raise KeyboardInterrupt("said") from e


class Interrupts:
    """A context manager for the main thread. `requested` says whether the first has come."""

    def __init__(self) -> None:
        self.requested = False
        self._before: Any = None

    def __enter__(self) -> Interrupts:
        ours = threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            die_by_interrupt()
        self.requested = True
