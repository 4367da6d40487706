"""Special tokens in text: the longest wins wherever it stands, then the leftmost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.tokenize.specials import Specials
from llamapy.tokenize.text import as_bytes, as_text, runs


def by_definition(text: str, ids: dict[str, int]) -> list[str | int]:
    """Take tokens longest first, cut every stretch of text at each, left to right."""
    parts: list[str | int] = [text]
    for token in sorted(ids, key=len, reverse=True):
        out: list[str | int] = []
        for part in parts:
            if isinstance(part, int):
                out.append(part)
                continue
            cut = part.split(token)
            for i, stretch in enumerate(cut):
                out += [ids[token]] if i else []
                out += [stretch]
        parts = out
    return [p for p in parts if p != ""]


@settings(max_examples=500, deadline=None)
@given(
    st.text(alphabet="abc", max_size=30),
    st.lists(st.text(alphabet="abc", min_size=1, max_size=5), max_size=1),
    st.integers(1, 4),
)
def test_one_token_and_its_longer_forms(text: str, base: list[str], more: int) -> None:
    ids = {t * n: n for t in base for n in range(1, more + 1)}
    assert list(Specials(ids.items()).split(text)) == by_definition(text, ids)


@settings(max_examples=500, deadline=None)
@given(
    st.text(alphabet="ab<>", max_size=40),
    st.sets(st.integers(1, 6), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
def test_tokens_of_different_lengths(text: str, sizes: set[int], rng: object) -> None:
    ids = {"".join(rng.choice("ab<>") for _ in range(n)): n for n in sizes}  # type: ignore[attr-defined]
    assert list(Specials(ids.items()).split(text)) == by_definition(text, ids)


def test_nothing_to_find() -> None:
    assert list(Specials([]).split("abc")) == ["abc"]
    assert list(Specials([("x", 1)]).split("")) == []


def test_stripping() -> None:
    s = Specials([("<a>", 1), ("<b>", 2)], rstrip={1}, lstrip={2})
    assert list(s.split("x <a> \n y <b> z")) == ["x ", 1, "y", 2, " z"]
    assert list(s.split("<a>  ")) == [1]


def test_a_long_run_is_linear_work() -> None:
    s = Specials([("\n" * n, n) for n in range(1, 32)] + [("<" + "x" * 50 + ">", 99)])
    assert list(s.split("\n" * (31 * 20000 + 5))) == [31] * 20000 + [5]


def test_invalid_bytes_stand_for_themselves() -> None:
    assert as_text(b"a\xffb") == "a\udcffb"
    assert list(runs("a\udcff\udcfeb")) == ["a", 0xFF, 0xFE, "b"]
    assert list(runs("añb")) == ["añb"]
    assert as_text("a\ud800b") == "a\udced\udca0\udc80b"
    assert as_bytes("\ud800\udcff") == b"\xed\xa0\x80\xff"


@given(st.binary(max_size=30))
def test_bytes_to_text_and_back(data: bytes) -> None:
    assert as_bytes(as_text(data)) == data
