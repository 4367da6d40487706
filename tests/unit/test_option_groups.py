"""A dataclass of options becomes options, and their values a dataclass again."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest

from llamapy.app.escapes import unescape
from llamapy.app.sampling import sampler_params
from llamapy.base.errors import UsageError
from llamapy.cli.groups import expand
from llamapy.sample.params import RANDOM_SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    width: Annotated[int, "w"] = 3
    height: Annotated[int, "h"] = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Wide:
    width: int = 1


def area(size: Size, scale: Annotated[int, "s"] = 1) -> int:
    """Docstring."""
    return size.width * size.height * scale


def test_a_group_becomes_its_fields() -> None:
    made = expand(area)
    signature = inspect.signature(made)
    assert list(signature.parameters) == ["width", "height", "scale"]
    assert signature.parameters["width"].annotation == Annotated[int, "w"]
    assert signature.parameters["height"].default == 4
    assert (made.__name__, made.__doc__) == ("area", "Docstring.")
    assert made(width=5, height=6, scale=2) == 60


def test_two_options_of_one_name_are_a_bug() -> None:
    def both(a: Size, b: Wide) -> None: ...

    with pytest.raises(TypeError, match="two options named 'width'"):
        expand(both)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (rb"a\nb\r\t\\", b"a\nb\r\t\\"),
        (rb"\'\"", b"'\""),
        (rb"\x41\x4\xZ", b"A\x04\\xZ"),
        (rb"\q\ ", rb"\q\ "),
        (b"\\", b"\\"),
        (rb"\\n", rb"\n"),
        ("\\é\\n".encode(), "\\é\n".encode()),
    ],
)
def test_escapes(text: bytes, want: bytes) -> None:
    assert unescape(text) == want


def params(given: dict[str, object], keys: dict[str, object] | None = None, **more: bool) -> object:
    more = {"ignore_eos": False, "escape": False, **more}
    return sampler_params(given, keys or {}, **more)


def test_flags_over_the_file_over_defaults() -> None:
    got = params({"top_k": 3, "temp": None}, {"general.sampling.temp": 0.5, "other": 1})
    assert (got.top_k, got.temp, got.top_p) == (3, 0.5, 0.95)  # type: ignore[attr-defined]


def test_texts_are_read() -> None:
    given = {"sampler_seq": "kt", "logit_bias": ["5+1.5", "6-inf"], "seed": -1}
    got = params(given, ignore_eos=True)
    assert got.samplers == ("top_k", "temperature")  # type: ignore[attr-defined]
    assert got.logit_bias == ((5, 1.5), (6, float("-inf")))  # type: ignore[attr-defined]
    assert got.seed == RANDOM_SEED and got.ignore_eos  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="both --samplers and --sampler-seq"):
        params({"samplers": "top_k", "sampler_seq": "k"})


def test_breakers() -> None:
    given = {"dry_sequence_breakers": ["a", "none", r"\n", "b"]}
    assert params(given).dry_sequence_breakers == (r"\n", "b")  # type: ignore[attr-defined]
    assert params(given, escape=True).dry_sequence_breakers == ("\n", "b")  # type: ignore[attr-defined]
