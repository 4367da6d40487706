"""Lists of values, their product, and what samples are summed up to."""

from __future__ import annotations

import itertools

import pytest

from llamapy.app.bench.params import Lists, cases, names, numbers, pairs
from llamapy.app.bench.stats import summary
from llamapy.base.errors import UsageError


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["512"], [512]),
        (["1,2,4"], [1, 2, 4]),
        (["1,2", "8"], [1, 2, 8]),
        (["3", "3"], [3, 3]),
        (["1-4"], [1, 2, 3, 4]),
        (["5-5"], [5]),
        (["0-512+128"], [0, 128, 256, 384, 512]),
        (["1-6+2"], [1, 3, 5]),
        (["1-16*2"], [1, 2, 4, 8, 16]),
        (["3-20*2"], [3, 6, 12]),
        (["7, 1-2"], [7, 1, 2]),
    ],
)
def test_lists_and_ranges(texts: list[str], values: list[int]) -> None:
    assert numbers(texts, "-p") == values


@pytest.mark.parametrize(
    "text", ["", "a", "-1", "1,", "1-", "4-1", "1-4+0", "1-4*1", "0-8*2", "1-4/2", "1.5", "0-99999"]
)
def test_what_is_no_list(text: str) -> None:
    with pytest.raises(UsageError, match="^-p"):
        numbers([text], "-p")


def test_a_value_may_be_too_small() -> None:
    assert numbers(["0"], "-d") == [0]
    with pytest.raises(UsageError, match="-t 0: must be at least 1"):
        numbers(["2,0"], "-t", 1)


def test_words_and_pairs() -> None:
    assert names(["f16,q8_0", "f16"], "-ctk", ("f16", "q8_0")) == ["f16", "q8_0", "f16"]
    with pytest.raises(UsageError, match="-ctk 'q9': must be one of f16"):
        names(["q9"], "-ctk", ("f16",))
    assert pairs(["512,128", "1,2"], "-pg") == [(512, 128), (1, 2)]
    for bad in ("512", "1,2,3", "0,1", "1,0"):
        with pytest.raises(UsageError, match="-pg"):
            pairs([bad], "-pg")


def test_the_product_of_all_lists() -> None:
    made = cases(
        Lists(
            n_prompt=[16, 32],
            n_gen=[8],
            pg=[(4, 2)],
            n_depth=[0, 64],
            n_batch=[32],
            n_ubatch=[8, 16],
            type_k=["f16", "f32"],
            n_threads=[1, 2],
        )
    )
    assert len(made) == len(set(made)) == 4 * 2 * 2 * 2 * 2
    assert [c.name for c in made[:4]] == ["pp16", "pp32", "tg8", "pp4+tg2"]
    assert {(c.n_ubatch, c.type_k, c.n_threads, c.n_depth) for c in made} == set(
        itertools.product([8, 16], ["f16", "f32"], [1, 2], [0, 64])
    )
    deep = made[-1]
    assert deep.name == "pp4+tg2 @ d64" and deep.n_ctx == 70


def test_zero_is_no_test() -> None:
    (only,) = cases(Lists(n_prompt=[0], n_gen=[0, 5]))
    assert (only.n_prompt, only.n_gen) == (0, 5)
    with pytest.raises(UsageError, match="nothing to run"):
        cases(Lists(n_prompt=[0], n_gen=[0]))


def test_statistics() -> None:
    s = summary([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
    assert s["mean"] == 5.0 and s["median"] == 4.5 and (s["min"], s["max"]) == (2.0, 9.0)
    assert s["stddev"] == pytest.approx((32 / 7) ** 0.5)
    assert s["mad"] == 0.5  # distances 2.5 .5 .5 .5 .5 .5 2.5 4.5
    assert summary([3.0]) == {
        "mean": 3.0, "stddev": 0.0, "median": 3.0, "mad": 0.0, "min": 3.0, "max": 3.0
    }  # fmt: skip
