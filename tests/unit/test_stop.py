"""Stop texts on bytes, across token boundaries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.base.errors import UsageError
from llamapy.tokenize.stop import StopMatcher

PIECES = [b"The capital", b" is", b" Par", b"is", b".", b" More", b"\n", b"\nEnd"]


def run(pieces: list[bytes], stops: list[bytes]) -> tuple[bytes, bytes | None]:
    matcher, out = StopMatcher(stops), b""
    for piece in pieces:
        out += matcher.push(piece)
        if matcher.fired is not None:
            break
    return out + matcher.finish(), matcher.fired


@pytest.mark.parametrize(
    ("stops", "text", "fired"),
    [
        ([b"Pari"], b"The capital is ", b"Pari"),
        ([b"is."], b"The capital is Par", b"is."),
        ([b"ris. "], b"The capital is Pa", b"ris. "),
        ([b"\n\n"], b"The capital is Paris. More", b"\n\n"),
        ([b"\n\n", b"ris. ", b"is.", b"Pari"], b"The capital is ", b"Pari"),
        ([b"ris. ", b"is."], b"The capital is Par", b"is."),
        ([b"Paris!", b"Parisian"], b"".join(PIECES), None),
        ([b"is", b" is"], b"The capital", b" is"),
        ([], b"".join(PIECES), None),
    ],
)
def test_scripted(stops: list[bytes], text: bytes, fired: bytes | None) -> None:
    assert run(PIECES, stops) == (text, fired)
    assert run([bytes([b]) for b in b"".join(PIECES)], stops) == (text, fired)
    assert run([b"".join(PIECES)], stops) == (text, fired)


def test_what_began_like_a_stop_is_released() -> None:
    matcher = StopMatcher([b"STOP"])
    assert matcher.push(b"xST") == b"x"
    assert matcher.push(b"ART") == b"START"
    assert matcher.push(b"SST") == b"S"
    assert matcher.push(b"O") == b""
    assert matcher.finish() == b"STO"
    assert matcher.fired is None


def test_hold_back_is_no_longer_than_needed() -> None:
    matcher = StopMatcher([b"aab"])
    assert matcher.push(b"aaa") == b"a"
    assert matcher.push(b"b") == b""
    assert matcher.fired == b"aab"


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        StopMatcher([""])


small = st.binary(max_size=4).map(lambda b: bytes(x % 3 + 97 for x in b))


@settings(max_examples=600, deadline=None)
@given(st.lists(small, max_size=12), st.lists(small.filter(len), max_size=3))
def test_cutting_into_pieces_makes_no_difference(pieces: list[bytes], stops: list[bytes]) -> None:
    whole = b"".join(pieces)
    ends = [(whole.find(s) + len(s), whole.find(s), s) for s in stops if s in whole]
    text, fired = run(pieces, stops)
    if not ends:
        assert (text, fired) == (whole, None)
    else:
        _, at, stop = min(ends)
        assert (text, fired) == (whole[:at], stop)
