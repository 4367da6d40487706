"""Streaming text: a character is never split, a stop text never shown."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.tokenize.stream import Stream, Utf8Stream


def streamed(pieces: list[bytes]) -> tuple[list[str], Utf8Stream]:
    stream = Utf8Stream()
    out = [stream.push(p) for p in pieces]
    return [*out, stream.finish()], stream


def test_an_emoji_in_four_byte_tokens_appears_once() -> None:
    out, stream = streamed([b"\xf0", b"\x9f", b"\xa6", b"\x99", b"!"])
    assert out == ["", "", "", "🦙", "!", ""]
    assert not stream.replaced


def test_half_a_character_at_the_end_is_one_mark_and_flagged() -> None:
    out, stream = streamed([b"ab", b"\xf0", b"\x9f"])
    assert out == ["ab", "", "", "\ufffd"]
    assert stream.replaced
    json.dumps(out)


def test_bytes_that_are_no_text_do_not_wait() -> None:
    out, stream = streamed([b"a\xff", b"b\xc0\xaf", b"\xe6", b"x"])
    assert out == ["a\ufffd", "b\ufffd\ufffd", "", "\ufffdx", ""]
    assert stream.replaced


def test_a_real_replacement_character_is_not_flagged() -> None:
    out, stream = streamed(["\ufffd".encode()])
    assert out == ["\ufffd", ""]
    assert not stream.replaced


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30), st.lists(st.integers(0, 120), max_size=12))
def test_any_cut_of_a_text_gives_the_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    at = sorted({0, len(data), *(c for c in cuts if c < len(data))})
    stream, out = Utf8Stream(), ""
    for a, b in zip(at, at[1:], strict=False):
        more = stream.push(data[a:b])
        more.encode()  # whole characters only
        out += more
        assert len(stream.held) <= 3
        assert out.encode() + stream.held == data[:b]
    assert out + stream.finish() == text
    assert not stream.replaced


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=30), st.integers(1, 5))
def test_any_cut_of_any_bytes_gives_what_python_makes_of_the_whole(data: bytes, step: int) -> None:
    out, stream = streamed([data[i : i + step] for i in range(0, len(data), step)])
    assert "".join(out) == data.decode("utf-8", "replace")
    assert stream.replaced == ("".join(out).encode() != data)


def run(pieces: list[bytes], stops: list[bytes], include: bool = False) -> tuple[str, Stream]:
    stream = Stream(stops, include_stop=include)
    text = ""
    for piece in pieces:
        text += stream.push(piece)
        if stream.stopped is not None:
            break
    return text + stream.finish(), stream


def test_stop_text_is_not_shown_unless_asked() -> None:
    pieces = [b"It is Pa", b"ris", b". Yes"]
    assert run(pieces, [b"ris. "])[0] == "It is Pa"
    text, stream = run(pieces, [b"ris. "], include=True)
    assert (text, stream.stopped, stream.raw) == ("It is Paris. ", b"ris. ", b"It is Paris. ")


def test_stop_inside_a_character_boundary_and_half_a_character_before() -> None:
    text, stream = run([b"a\xf0\x9f", b"\n\n", b"b"], [b"\n\n"])
    assert text == "a\ufffd"
    assert stream.replaced
    assert stream.raw == b"a\xf0\x9f"


def test_a_stop_of_several_bytes_per_character() -> None:
    data = "Ende。Mehr".encode()
    text, stream = run([bytes([b]) for b in data], ["。".encode()])
    assert (text, stream.stopped) == ("Ende", "。".encode())


def test_nothing_comes_after_a_stop() -> None:
    stream = Stream(["x"])
    assert stream.push(b"axb") == "a"
    assert stream.push(b"c") == ""
    assert stream.finish() == ""
