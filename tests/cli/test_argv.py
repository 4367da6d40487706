"""Spellings of flags are made plain; values are never touched."""

from __future__ import annotations

import pytest

from llamapy.base.errors import UsageError
from llamapy.cli.argv import Flag, normalise

FLAGS = [
    Flag(("-n", "--predict", "--n-predict"), True),
    Flag(("-ngl", "--gpu-layers", "--n-gpu-layers"), True),
    Flag(("-p", "--prompt"), True),
    Flag(("-e", "--escape"), False, "--no-escape"),
    Flag(("-v", "--verbose"), False),
    Flag(("--ignore-eos",), False),
]


def plain(*argv: str, positionals: bool = False) -> list[str]:
    return normalise(argv, FLAGS, positionals=positionals)


@pytest.mark.parametrize(
    ("argv", "want"),
    [
        (["-ngl", "10"], ["-ngl", "10"]),
        (["-ngl=10"], ["-ngl", "10"]),
        (["--n_gpu_layers", "10"], ["--n-gpu-layers", "10"]),
        (["--n-gpu-layers=10"], ["--n-gpu-layers", "10"]),
        (["--prompt=a_b=c"], ["--prompt", "a_b=c"]),
        (["-n", "-1"], ["-n", "-1"]),
        (["-n5"], ["-n", "5"]),
        (["-n-1"], ["-n", "-1"]),
        (["-vv"], ["-v", "-v"]),
        (["-ve"], ["-v", "-e"]),
        (["--ignore_eos"], ["--ignore-eos"]),
        (["--escape", "on"], ["--escape"]),
        (["--escape", "off"], ["--no-escape"]),
        (["-e", "-p", "x"], ["-e", "-p", "x"]),
        (["--no_escape"], ["--no-escape"]),
    ],
)
def test_names_are_rewritten(argv: list[str], want: list[str]) -> None:
    assert plain(*argv) == want


@pytest.mark.parametrize(
    "value", ["-ngl", "--n_gpu_layers", "--", "-", "on", "", "--a_b=c_d", "-vv"]
)
def test_a_value_stays_as_it_is(value: str) -> None:
    assert plain("-p", value, "-v") == ["-p", value, "-v"]


def test_after_two_dashes_nothing_is_touched() -> None:
    assert plain("-v", "--", "--a_b", "-ngx") == ["-v", "--", "--a_b", "-ngx"]


def test_a_positional_on_is_no_value_of_a_switch() -> None:
    assert plain("--escape", "on", positionals=True) == ["--escape", "on"]


def test_a_switch_without_opposite_takes_no_on() -> None:
    assert plain("-v", "on") == ["-v", "on"]


@pytest.mark.parametrize(
    ("argv", "near"),
    [
        (["--n-gpu-layer", "1"], "'--n-gpu-layers'"),
        (["-ngx", "5"], "'-ngl'"),
        (["-nan"], None),
        (["--predicted=3"], "'--predict'"),
    ],
)
def test_an_unknown_flag_names_the_nearest(argv: list[str], near: str | None) -> None:
    with pytest.raises(UsageError, match="no such option: " + argv[0].partition("=")[0]) as e:
        plain(*argv)
    if near:
        assert f"did you mean {near}?" in str(e.value)


@pytest.mark.parametrize("argv", [["-ngl"], ["-v", "--prompt"]])
def test_a_missing_value_is_named(argv: list[str]) -> None:
    with pytest.raises(UsageError, match=f"{argv[-1]} needs a value"):
        plain(*argv)


def test_a_value_for_a_switch_is_refused() -> None:
    with pytest.raises(UsageError, match="--ignore-eos takes no value, got '1'"):
        plain("--ignore-eos=1")
