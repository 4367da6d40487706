"""The usual chain in one native call gives what the steps in Python give, bit by bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from llamapy.app.bench.phases import NoText
from llamapy.base.errors import NumericError
from llamapy.sample import Sampler, SamplerParams


def both(n: int, **params: Any) -> tuple[Sampler, Sampler]:
    """The sampler as it is, and one that knows the steps alone."""
    p = SamplerParams(**{"seed": 3} | params)
    native, steps = Sampler(p, NoText(n)), Sampler(p, NoText(n))
    assert native._usual is not None
    steps._usual = None
    return native, steps


def outcome(s: Sampler, x: NDArray[np.float32]) -> object:
    try:
        ids = [s.sample(x) for _ in range(4)]
        id, p, probs = s.weighed(x)
    except NumericError as e:
        return str(e)
    return ids, id, p.hex(), probs.tobytes()


def same(n: int, x: NDArray[np.float32], **params: Any) -> object:
    native, steps = both(n, **params)
    found = outcome(native, x)
    assert found == outcome(steps, x)
    return found


few = st.sampled_from([0.0, -0.0, 1.0, 2.5, -3.25, 8.0, -np.inf])
any_logit = st.one_of(few, st.floats(-40, 40, width=32), st.sampled_from([3e38, -3e38]))
temps = st.one_of(st.floats(0.05, 5), st.sampled_from([1e-300, 1e-30, 1e-4, 1e4, 1e30, 1e300]))
biases = st.dictionaries(st.integers(0, 200), st.sampled_from([-math.inf, -2.0, 1.5]), max_size=6)


@settings(max_examples=400, deadline=None)
@given(
    st.data(), st.one_of(st.lists(few, min_size=1, max_size=150), st.lists(any_logit, min_size=1))
)
def test_any_logits_and_parameters(data: st.DataObject, values: list[float]) -> None:
    x, n = np.array(values, np.float32), len(values)
    bias = data.draw(biases)
    same(
        n,
        x,
        top_k=data.draw(st.integers(1, 60)),
        top_p=data.draw(st.one_of(st.floats(0, 1.1), st.just(1.0))),
        min_p=data.draw(st.one_of(st.floats(-0.1, 1), st.sampled_from([1e-300, 5e-324]))),
        min_keep=data.draw(st.sampled_from([0, 0, 1, 3, 20])),
        temp=data.draw(temps),
        logit_bias=tuple((id, add) for id, add in bias.items() if id < n),
    )


@pytest.mark.parametrize("top_k", [1, 40, 1000])
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_whole_vocabularies(scale: float, top_k: int) -> None:
    rng = np.random.default_rng(top_k)
    x = (rng.standard_normal(20001) * scale).astype(np.float32)
    bans = tuple((int(id), -math.inf) for id in np.argsort(-x)[:50:2])
    for values in (x, np.round(x)):
        same(len(x), values, top_k=top_k)
        for ban in (bans, bans[:20], bans[:1]):
            ids = same(len(x), values, top_k=top_k, logit_bias=ban, min_p=0.0)
            assert isinstance(ids, tuple)
            assert not {id for id, _ in ban} & {*ids[0], ids[1]}


def test_greedy() -> None:
    x = np.array([1, 7, -np.inf, 7, 3], np.float32)
    cases = [((), 1), (((1, -math.inf),), 3), (((1, -5.0), (3, -5.0)), 4), (((4, 9.0),), 4)]
    for bias, wanted in cases:
        native, steps = both(5, temp=0, logit_bias=bias)
        assert [native.sample(x), steps.sample(x)] == [wanted] * 2


@pytest.mark.parametrize("temp", [0.0, 0.8])
def test_broken_logits_are_told_the_same_way(temp: float) -> None:
    for at in (0, 3, 63, 64, 999):
        for bad, told in ((np.nan, "NaN"), (np.inf, "inf")):
            x = np.linspace(-5, 5, 1000, dtype=np.float32)
            x[at] = bad
            for bias in ((), ((at, -math.inf),), ((at, -1.0),)):
                found = same(1000, x, temp=temp, logit_bias=bias)
                assert found == f"the logits are broken: {told} at token {at} of 1000"
    found = same(70, np.full(70, -np.inf, np.float32), temp=temp)
    assert found == "the logits are broken: -inf at token 0 of 70"


def test_one_number_is_drawn_for_a_token() -> None:
    x = np.linspace(-5, 5, 100, dtype=np.float32)
    sure = np.where(x == 5, 1000, x).astype(np.float32)
    native, steps = both(100)
    native.sample(sure)
    steps.sample(x)
    assert [native.sample(x) for _ in range(50)] == [steps.sample(x) for _ in range(50)]
    assert len({native.sample(x) for _ in range(50)}) > 3


@pytest.mark.parametrize(
    "params",
    [
        {"top_k": 0},
        {"top_k": 1025},
        {"samplers": ("top_p", "top_k", "temperature")},
        {"samplers": ("temperature", "top_k", "top_p")},
        {"samplers": ("top_k", "top_p")},
        {"samplers": ("top_k", "top_k", "temperature")},
        {"dynatemp_range": 0.5},
        {"mirostat": 2},
        {"typical": 0.9},
        {"repeat_penalty": 1.1},
        {"repeat_penalty": 1.1, "temp": 0.0},
    ],
)
def test_other_chains_go_through_the_steps(params: dict[str, Any]) -> None:
    assert Sampler(SamplerParams(**params), NoText(2000))._usual is None
