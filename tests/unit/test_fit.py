"""Context arithmetic: what is chosen, what is refused with which numbers, what is left out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamapy.app.fit import POLICIES, Fit, fit
from llamapy.base.errors import ContextError, UsageError


def plan(
    n_prompt: int, n: int = -1, c: int | None = None, train: int = 8192, **more: object
) -> Fit:
    return fit(range(n_prompt), n_predict=n, n_ctx=c, n_ctx_train=train, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_prompt", "n", "c", "train", "want"),
    [
        (5, 16, None, 8192, 256),
        (250, 6, None, 8192, 256),
        (250, 7, None, 8192, 512),
        (100, 0, None, 8192, 256),
        (8000, 190, None, 8192, 8192),
        (5, -1, None, 8192, 4096),
        (5, -1, None, 2048, 2048),
        (4096, -1, None, 131072, 8192),
        (4096, -1, None, 5000, 5000),
        (5, 16, 0, 2048, 2048),
        (5, 16, 64, 2048, 64),
        (5, 16, 4000, 2048, 4000),
    ],
)
def test_the_context_is_what_the_job_needs(
    n_prompt: int, n: int, c: int | None, train: int, want: int
) -> None:
    assert plan(n_prompt, n, c, train).n_ctx == want


def test_a_context_of_64() -> None:
    got = plan(63, c=64)
    assert (got.n_max, got.limit, got.dropped) == (1, "context", None)
    for n_prompt in (64, 65, 1000):
        with pytest.raises(ContextError, match=rf"--ctx-size {n_prompt + 1} ") as e:
            plan(n_prompt, c=64)
        assert re.findall(r"\d+", str(e.value))[:3] == [str(n_prompt), "1", "64"]
    with pytest.raises(ContextError, match="of 60 tokens and 5 to generate .* 64: .*-size 65 "):
        plan(60, 5, 64)
    assert plan(60, 4, 64).limit == "length"


def test_more_than_the_model_was_trained_for_is_refused_and_said() -> None:
    with pytest.raises(ContextError, match=r"--ctx-size 2100 \(the model was trained for 2048, mo"):
        plan(2000, 100, None, 2048)
    assert plan(2000, 100, 2100, 2048).n_ctx == 2100


def test_what_is_left_out() -> None:
    left = plan(100, 4, 64, on_overflow="truncate-left", n_head=1)
    assert left.ids == [0, *range(41, 100)] and left.dropped == (1, 41)
    assert (left.n_max, left.limit) == (4, "length")
    middle = plan(100, 4, 64, on_overflow="truncate-middle", n_head=1)
    assert middle.ids == [*range(30), *range(70, 100)] and middle.dropped == (30, 70)
    free = plan(100, -1, 64, on_overflow="truncate-left")
    assert free.ids == list(range(52, 100)) and (free.n_max, free.limit) == (16, "context")
    assert plan(60, 4, 64, on_overflow="truncate-left").dropped is None


def test_no_truncation_makes_room_for_the_impossible() -> None:
    with pytest.raises(ContextError, match="and 64 to generate do not fit a context of 64"):
        plan(10, 64, 64, on_overflow="truncate-left")


def test_an_unknown_policy() -> None:
    with pytest.raises(
        UsageError, match="--on-overflow shift: must be one of error, truncate-left"
    ):
        plan(1, on_overflow="shift")


@given(
    n_prompt=st.integers(1, 300),
    n=st.integers(-1, 300),
    c=st.none() | st.integers(1, 300),
    policy=st.sampled_from(POLICIES),
    n_head=st.integers(0, 1),
)
def test_laws(n_prompt: int, n: int, c: int | None, policy: str, n_head: int) -> None:
    try:
        got = plan(n_prompt, n, c, 200, on_overflow=policy, n_head=n_head)
    except ContextError:
        return
    assert got.n_max + len(got.ids) <= got.n_ctx
    assert got.n_max == n if n >= 0 else got.n_max >= 1
    a, b = got.dropped or (0, 0)
    assert got.ids == [i for i in range(n_prompt) if not a <= i < b]
    assert len(got.ids) > 0 and got.ids[:n_head] == list(range(n_head))
