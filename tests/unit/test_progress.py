"""A line that overwrites itself on a terminal, a plain one now and then elsewhere; no escapes."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from llamapy.base.log import log
from llamapy.cli import progress
from llamapy.cli.progress import Progress, progress_text


class Stderr(io.TextIOWrapper):
    def __init__(self, terminal: bool) -> None:
        self.raw_bytes = io.BytesIO()
        super().__init__(self.raw_bytes, encoding="utf-8")
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def shown(self) -> str:
        self.flush()
        return self.raw_bytes.getvalue().decode()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def set_now(seconds: float) -> None:
        now[0] = seconds

    return set_now


def stderr(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> Stderr:
    stream = Stderr(terminal)
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def test_a_terminal_line_is_overwritten_and_wiped(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[float], None]
) -> None:
    stream = stderr(monkeypatch, terminal=True)
    with Progress("prompt", "tokens") as p:
        for second in (0.0, 0.5, 1.5, 1.55, 2.0):
            at(second)
            p.update(int(second * 10), 40)
        log.note("between")
        at(3.0)
        p.update(30, 40)
    got = stream.shown()
    assert "\x1b" not in got
    lines = [part for part in got.replace("\n", "\r").split("\r") if part.strip()]
    assert [line.strip() for line in lines] == [
        "prompt 15/40 tokens, 38%, 2 s left",
        "prompt 20/40 tokens, 50%, 2 s left",
        "llamapy: between",
        "prompt 30/40 tokens, 75%, 1 s left",
    ]
    assert got.endswith(" \r")  # nothing is left on the line


def test_elsewhere_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[float], None]
) -> None:
    stream = stderr(monkeypatch, terminal=False)
    with Progress("writing", "bytes") as p:
        for second in range(0, 25, 3):
            at(second)
            p.update(second * 1_000_000, 30_000_000)
    assert stream.shown().splitlines() == [
        "llamapy: writing 12/30 MB, 40%, 18 s left",
        "llamapy: writing 24/30 MB, 80%, 6 s left",
    ]


def test_a_short_step_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[float], None]
) -> None:
    stream = stderr(monkeypatch, terminal=True)
    with Progress("x") as p:
        p.update(0, 2)
        at(0.9)
        p.update(2, 2)
    with Progress("x", shown=False) as p:
        p.update(0, 2)
        at(99.0)
        p.update(1, 2)
    assert stream.shown() == ""


def test_no_division_by_nothing() -> None:
    assert progress_text("a", "", 0, 0, 0.0) == "a 0/0, 100%"
    assert progress_text("a", "b", 0, 5, 1.0) == "a 0/5 b, 0%"


def test_a_stage_has_a_clock_of_its_own(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[float], None]
) -> None:
    stream = stderr(monkeypatch, terminal=True)
    with Progress("loading", "bytes") as p:
        for second, what in ((0.0, "loading"), (5.0, "loading"), (6.0, "repacking")):
            at(second)
            p.stages(what, 1_000_000, 4_000_000)
        at(6.9)
        p.stages("repacking", 2_000_000, 4_000_000)
        assert "repacking" not in stream.shown()
        at(7.1)
        p.stages("repacking", 3_000_000, 4_000_000)
    shown = [part.strip() for part in stream.shown().split("\r") if part.strip()]
    assert shown == ["loading 1/4 MB, 25%, 15 s left", "repacking 3/4 MB, 75%, 0 s left"]


def test_what_is_on_the_line_already_stays(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[float], None]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = stderr(monkeypatch, terminal=True)
    with Progress("x") as p:
        p.after("The end\nof the")
        p.after(" line")
        for second in (0.0, 2.0):
            at(second)
            p.update(1, 4)
    full = "of the line [x 1/4, 25%, 6 s left]"
    wiped = "of the line" + " " * (len(full) - 11)
    assert stream.shown() == f"\r{full}\r{wiped}\rof the line"


@pytest.mark.parametrize("before", ["a\tb", "\x1b[1m", "x" * 55])
def test_no_line_beside_what_cannot_be_written_again(
    before: str, monkeypatch: pytest.MonkeyPatch, at: Callable[[float], None]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    stream = stderr(monkeypatch, terminal=True)
    with Progress("x") as p:
        p.after(before)
        for second in (0.0, 2.0):
            at(second)
            p.update(1, 4)
    assert stream.shown() == ""
