"""Beginnings that prompts share: which there are, and how long they are kept."""

from __future__ import annotations

import itertools
import random

from llamapy.app.batch import stems
from llamapy.app.batch.stems import LEAST, Stem, Stems, find_stems


def lengths(*prompts: list[int]) -> list[list[int]]:
    return [[s.length for s in of] for of in find_stems(prompts)]


def test_the_last_token_is_in_none() -> None:
    a = list(range(40))
    assert lengths(a, a) == [[39], [39]]
    assert lengths(a, [*a, 7, 8]) == [[39], [39]]
    assert lengths(a) == [[]] and find_stems([]) == []
    assert lengths(a[:LEAST], a[:LEAST]) == [[], []]
    assert lengths(a[: LEAST + 1], a[: LEAST + 1]) == [[LEAST], [LEAST]]


def test_stems_within_stems() -> None:
    base = [1] * 20
    one, two = [*base, *[2] * 20], [*base, *[3] * 20]
    got = find_stems(
        [[*one, 1, 0], [*two, 5, 0], [*one, 2, 0], [*two, 6, 0], [*base, 9, 0], [9] * 90]
    )
    assert [[(s.length, s.n_users) for s in of] for of in got] == [
        [(20, 5), (40, 2)],
        [(20, 5), (40, 2)],
        [(20, 5), (40, 2)],
        [(20, 5), (40, 2)],
        [(20, 5)],
        [],
    ]
    assert got[0] == got[2] and got[1][1] != got[0][1] and got[1][0] == got[0][0] == got[4][0]


def test_random_prompts_against_their_definition() -> None:
    rng = random.Random(3)
    for _ in range(60):
        prompts = [[rng.randrange(2) for _ in range(rng.randrange(1, 9))] for _ in range(9)]
        old, stems.LEAST = stems.LEAST, 1
        try:
            got = find_stems(prompts)
        finally:
            stems.LEAST = old
        texts = [p[:-1] for p in prompts]
        for i, text in enumerate(texts):
            alike = {
                sum(
                    1
                    for _ in itertools.takewhile(
                        lambda xy: xy[0] == xy[1], zip(text, other, strict=False)
                    )
                )
                for j, other in enumerate(texts)
                if i != j
            }
            assert [s.length for s in got[i]] == sorted(alike - {0})
            for s in got[i]:
                same = [j for j, t in enumerate(texts) if t[: s.length] == text[: s.length]]
                assert [s in of for of in got].count(True) == len(same) == s.n_users
                assert all(s in got[j] for j in same)


class Memory:
    """Sequences as lists of tokens."""

    def __init__(self) -> None:
        self.seqs: dict[int, str] = {}

    def seq_rm(self, seq: int, p0: int) -> None:
        self.seqs.pop(seq, None)

    def seq_cp(self, src: int, dst: int) -> None:
        assert dst not in self.seqs
        self.seqs[dst] = self.seqs[src]


def test_stems_go_when_nobody_is_left_or_room_is_needed() -> None:
    ctx = Memory()
    kept = Stems(ctx, [8, 9], 100)
    a, b, c = Stem(1, 40, 3), Stem(2, 50, 2), Stem(3, 60, 2)
    ctx.seqs[0] = "aaa"
    assert kept.copy([a], 0, 1) == 0
    kept.passed(a, 0, at=True)
    assert ctx.seqs[9] == "aaa" and kept.copy([a], 40, 1) == 0
    assert kept.copy([a, b], 0, 1) == 40 and ctx.seqs[1] == "aaa"
    kept.passed(a, 1, at=False)
    ctx.seqs[0] = "bbb"
    kept.passed(b, 0, at=True)
    assert ctx.seqs[8] == "bbb" and ctx.seqs[9] == "aaa"
    ctx.seqs[0] = "ccc"
    kept.passed(c, 0, at=True)  # a and b go: 60 more is too much with either
    assert sorted(ctx.seqs.values()) == ["aaa", "ccc", "ccc"]
    assert kept.copy([a], 0, 2) == 0 and kept.copy([c], 0, 2) == 60
    kept.passed(c, 2, at=False)  # the last user
    assert kept.copy([c], 0, 3) == 0 and 8 not in ctx.seqs and 9 not in ctx.seqs
    ctx.seqs[0] = "ddd"
    kept.passed(Stem(4, 101, 2), 0, at=True)
    assert kept.copy([Stem(4, 101, 2)], 0, 3) == 0
