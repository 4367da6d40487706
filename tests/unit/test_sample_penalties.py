"""Steps that look back, against their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.sample.breakers import find_breakers
from llamapy.sample.candidates import Candidates
from llamapy.sample.params import SamplerParams
from llamapy.sample.penalties import add_bias, continuations, dry, repetition


def test_repetition() -> None:
    c = Candidates(np.array([2, -2, 3, 0.5], np.float32))
    p = SamplerParams(repeat_penalty=2, presence_penalty=0.25, frequency_penalty=0.5)
    got = repetition(c, [0, 1, 1, 99], p)
    assert got.logits.tolist() == [2 / 2 - 0.75, -2 * 2 - 1.25, 3, 0.5]
    assert c.logits.tolist() == [2, -2, 3, 0.5]
    part = Candidates(np.array([3, 2], np.float32), np.array([2, 0]))
    assert repetition(part, [0, 1], p).logits.tolist() == [3, 0.25]


def test_bias() -> None:
    c = Candidates(np.array([2, -2, 3], np.float32))
    assert add_bias(c, {0: 1.5, 2: -math.inf, 7: 1.0}).logits.tolist() == [3.5, -2, -math.inf]


def longest_repeats(window: list[int], allowed: int, reach: int) -> dict[int, int]:
    """For each token: the longest end of the window that once stood before it."""
    out: dict[int, int] = {}
    for at in range(1, len(window)):
        n = 0
        while n < at and window[at - 1 - n] == window[-1 - n]:
            n += 1
        n = min(n, reach)
        if n >= max(allowed, 1):
            out[window[at]] = max(out.get(window[at], 0), n)
    return out


@settings(max_examples=500, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=24), st.integers(1, 4), st.integers(0, 24))
def test_continuations(window: list[int], allowed: int, reach: int) -> None:
    wanted = longest_repeats(window, allowed, reach) if len(window) > allowed else {}
    assert continuations(window, allowed, reach) == wanted


def test_dry_amount() -> None:
    p = SamplerParams(dry_multiplier=0.8)
    c = Candidates(np.zeros(10, np.float32))
    got = dry(c, [1, 2, 3, 4, 9, 1, 2, 3], p, {}).logits
    assert got[4] == pytest.approx(-0.8 * 1.75 ** (3 - 2), rel=1e-6)
    assert np.count_nonzero(got) == 1
    # A breaker within the repetition shortens it: 3 alone is less than the allowed two.
    assert not dry(c, [1, 2, 3, 4, 9, 1, 2, 3], p, {2: [()]}).logits.any()
    got = dry(c, [1, 2, 3, 4, 9, 1, 2, 3], p, {1: [()]}).logits
    assert got[4] == pytest.approx(-0.8, rel=1e-6)


def test_dry_breaker_of_several_tokens() -> None:
    p = SamplerParams(dry_multiplier=1.0, dry_allowed_length=1)
    window = [1, 2, 3, 4, 9, 1, 2, 3]
    c = Candidates(np.zeros(10, np.float32))
    whole = -(1.75**2)
    assert dry(c, window, p, {1: [(2, 9)]}).logits[4] == pytest.approx(whole, rel=1e-6)
    assert dry(c, window, p, {1: [(2,)]}).logits[4] == pytest.approx(-1.0, rel=1e-6)


def test_dry_never_overflows() -> None:
    p = SamplerParams(dry_multiplier=1.0, dry_penalty_last_n=4096)
    got = dry(Candidates(np.zeros(3, np.float32)), [1] * 4096, p, {}).logits
    assert got[1] == np.float32(-1e30)
    assert np.isfinite(got[[0, 2]]).all()
    assert not np.isnan(got).any()


class Words:
    """A vocabulary of a few pieces; text is taken letter by letter."""

    pieces = ("a", "b", "\n", "x\n", 'say "', "ab", "c:", "END", "xE", "D", "N", "E")
    n_vocab = len(pieces)

    def piece(self, id: int, special: bool = False) -> bytes:
        return self.pieces[id].encode()

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        assert isinstance(text, bytes)
        return [self.pieces.index(c) for c in text.decode()]


def test_breakers_are_tokens_that_carry_them() -> None:
    found = find_breakers(Words(), ["\n", ":", '"', "*"])
    assert found == {2: [()], 3: [()], 4: [()], 6: [()]}
    assert find_breakers(Words(), ["END"]) == {7: [()], 8: [(10, 9)], 11: [(10, 9)]}
    assert find_breakers(Words(), []) == {}
