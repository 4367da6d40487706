"""How far a long step is: one line on stderr that overwrites itself, or a plain line now and then.

Without escape codes: the line is wiped with spaces. Nothing is shown for what takes under a second.
"""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType

from llamapy.base.log import log, to_stderr
from llamapy.cli.streams import is_terminal

FIRST_S, TERMINAL_S, PLAIN_S = 1.0, 0.1, 10.0


class Progress:
    """Use as a context manager; log lines printed meanwhile do not collide with the line."""

    def __init__(self, label: str, unit: str = "", *, shown: bool = True) -> None:
        self._label, self._unit, self._shown = label, unit, shown
        self._terminal = is_terminal(sys.stderr)
        self._start: float | None = None  # of the first update
        self._last = 0.0
        self._width = 0
        self._before = ""

    def __enter__(self) -> Progress:
        self._sink = log.sink
        log.sink = self._log
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.clear()
        log.sink = self._sink

    def stage(self, label: str, unit: str = "") -> None:
        """What updates from now on count; their clock starts anew when it is something else."""
        if (label, unit) != (self._label, self._unit):
            self.clear()
            self._label, self._unit, self._start = label, unit, None

    def stages(self, label: str, done: int, total: int) -> None:
        """Update of a stage that counts bytes."""
        self.stage(label, "bytes")
        self.update(done, total)

    def after(self, text: str) -> None:
        """An answer is being written to the same line: `text` is the next piece of it. It is
        written again with every update, so that none wipes it."""
        if self._terminal:
            self._before = (self._before + text).rpartition("\n")[2]

    def due(self) -> bool:
        """Whether an update would be seen."""
        now = time.monotonic()
        if self._start is None:
            self._start = self._last = now
        first = self._last == self._start
        pause = FIRST_S if first and self._terminal else TERMINAL_S if self._terminal else PLAIN_S
        return self._shown and self._before.isprintable() and now - self._last >= pause

    def update(self, done: int, total: int, more: str = "") -> None:
        """`done` of `total` units; a line appears when it is due, with `more` at its end."""
        if not self.due() or self._start is None:
            return
        self._last = time.monotonic()
        text = progress_text(self._label, self._unit, done, total, self._last - self._start)
        text += f", {more}" if more else ""
        if self._terminal:
            room = shutil.get_terminal_size().columns - 1 - len(self._before)
            if self._before:
                text = f" [{text}]"
            if len(text) <= room or not self._before:
                self._line(text[:room])
        else:
            to_stderr(f"llamapy: {text}")

    def clear(self) -> None:
        if self._width:
            self._line("")
            self._width = 0

    def _log(self, line: str) -> None:
        self.clear()
        self._before = ""
        self._sink(line)

    def _line(self, text: str) -> None:
        wiped = " " * max(self._width - len(text), 0)
        line = f"\r{self._before}{text}{wiped}"
        sys.stderr.write(line if text else f"{line}\r{self._before}")
        sys.stderr.flush()
        self._width = len(text)


def progress_text(label: str, unit: str, done: int, total: int, seconds: float) -> str:
    """`label 12/34 MB, 35%, 5 s left`; bytes are shown in MB."""
    scale, shown = (1e6, "MB") if unit == "bytes" else (1.0, unit)
    share = done / total if total else 1.0
    left = f", {seconds * (1 - share) / share:.0f} s left" if 0 < share < 1 else ""
    counts = f"{done / scale:.0f}/{total / scale:.0f}"
    return f"{label} {counts}{' ' if shown else ''}{shown}, {share:.0%}{left}"
