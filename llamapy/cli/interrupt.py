"""Ctrl-C while text is generated: the first asks for an end, the second is one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from llamapy.cli.streams import die_by_interrupt


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
