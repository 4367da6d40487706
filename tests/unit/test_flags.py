"""Flags from the environment: a bad value is refused by name."""

from __future__ import annotations

import pytest

from llamapy.base import flags
from llamapy.base.errors import UsageError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for flag in flags.FLAGS:
        monkeypatch.delenv(flag.name, raising=False)


def test_every_flag_has_a_known_kind_and_a_meaning() -> None:
    for flag in flags.FLAGS:
        assert flag.name.startswith("LLAMAPY_")
        assert flag.kind in ("path", "switch", "count", "choice")
        assert flag.meaning
        assert bool(flag.choices) == (flag.kind == "choice")


def test_unset_and_empty_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, ""):
        if value is not None:
            for flag in flags.FLAGS:
                monkeypatch.setenv(flag.name, value)
        assert flags.choice("LLAMAPY_ISA") is None
        assert flags.path("LLAMAPY_LIB") is None
        assert flags.switch("LLAMAPY_VERIFY") is False
        assert flags.count("LLAMAPY_THREADS") is None


def test_good_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAPY_ISA", "avx2")
    monkeypatch.setenv("LLAMAPY_LIB", "/x y")
    monkeypatch.setenv("LLAMAPY_VERIFY", "1")
    monkeypatch.setenv("LLAMAPY_THREADS", "12")
    assert flags.choice("LLAMAPY_ISA") == "avx2"
    assert flags.path("LLAMAPY_LIB") == "/x y"
    assert flags.switch("LLAMAPY_VERIFY") is True
    assert flags.count("LLAMAPY_THREADS") == 12


def test_an_unknown_choice_names_the_near_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAPY_ISA", "avx521")
    with pytest.raises(UsageError, match="LLAMAPY_ISA=avx521: .*did you mean 'avx512'"):
        flags.choice("LLAMAPY_ISA")


@pytest.mark.parametrize("value", ["yes", "2", "-1", " 1"])
def test_a_switch_is_0_or_1(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LLAMAPY_STRICT_REUSE", value)
    with pytest.raises(UsageError, match="LLAMAPY_STRICT_REUSE=.*0 or 1"):
        flags.switch("LLAMAPY_STRICT_REUSE")


@pytest.mark.parametrize("value", ["0", "-2", "1.5", "two", "²"])
def test_a_count_is_whole_and_from_1(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LLAMAPY_THREADS", value)
    with pytest.raises(UsageError, match="LLAMAPY_THREADS=.*from 1"):
        flags.count("LLAMAPY_THREADS")
