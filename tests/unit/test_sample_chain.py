"""The chain: order, greedy, seeds, statistics, and logits that are broken."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from llamapy.base.errors import NumericError, UsageError
from llamapy.sample import Sampler, SamplerParams
from llamapy.sample.rng import Rng

OFF: dict[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0, "temp": 1.0}


class Vocab:
    n_vocab = 8
    eog = frozenset({7})
    suppress: tuple[int, ...] = ()

    def piece(self, id: int, special: bool = False) -> bytes:
        return b"abcdefg\n"[id : id + 1]

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        return list(range(len(text)))


def sampler(**params: Any) -> Sampler:
    return Sampler(SamplerParams(**{"seed": 5} | params), Vocab())


def logits(*values: float) -> NDArray[np.float32]:
    out = np.full(Vocab.n_vocab, -5, np.float32)
    out[: len(values)] = values
    return out


def test_the_generator_is_splitmix64() -> None:
    # The published first outputs for state 0 are E220A8397B1DCDAF, 6E789E6AA1B965F4.
    rng = Rng(0)
    rng._state = 0
    assert [rng.next() for _ in range(2)] == [
        (0xE220A8397B1DCDAF >> 11) * 2.0**-53,
        (0x6E789E6AA1B965F4 >> 11) * 2.0**-53,
    ]
    assert Rng(1).next() != Rng(2).next() != Rng(1, 1).next()


def test_draws_follow_the_probabilities() -> None:
    x = np.log(np.array([0.4, 0.3, 0.2, 0.05, 0.05, 1e-9, 1e-9, 1e-9])).astype(np.float32)
    s = sampler(**OFF)
    n = 20000
    counts = np.bincount([s.sample(x) for _ in range(n)], minlength=8)
    expected = np.array([0.4, 0.3, 0.2, 0.05, 0.05]) * n
    assert counts[5:].sum() == 0
    # Chi-square with 4 degrees of freedom: 18.5 is the 0.1 % point; the seed is fixed.
    assert float((((counts[:5] - expected) ** 2) / expected).sum()) < 18.5


def test_a_seed_gives_one_text_and_reset_gives_it_again() -> None:
    x = logits(1, 1.1, 0.9, 1, 1, 1)
    a, b = sampler(), sampler()
    first = [a.sample(x) for _ in range(50)]
    assert first == [b.sample(x) for _ in range(50)]
    a.reset()
    assert first == [a.sample(x) for _ in range(50)]
    assert first != [sampler(seed=6).sample(x) for _ in range(50)]
    assert a.seed == 5
    assert Sampler(SamplerParams(seed=5), Vocab(), seed=9).seed == 9


def test_these_draws_never_change() -> None:
    x = logits(1, 1.1, 0.9, 1, 1, 1)
    s = sampler(seed=42)
    assert [s.sample(x) for _ in range(12)] == FROZEN


FROZEN = [4, 1, 1, 1, 2, 0, 0, 1, 5, 0, 5, 2]


def test_a_random_seed_is_told() -> None:
    seeds = {Sampler(SamplerParams(), Vocab()).seed for _ in range(4)}
    assert len(seeds) > 1
    assert all(0 <= s < 0xFFFFFFFF for s in seeds)
    x = logits(1, 1, 1, 1, 1)
    s = Sampler(SamplerParams(), Vocab())
    again = Sampler(SamplerParams(), Vocab(), seed=s.seed)
    assert [s.sample(x) for _ in range(20)] == [again.sample(x) for _ in range(20)]


@pytest.mark.parametrize("temp", [0.0, -1.0])
@pytest.mark.parametrize("chain", [SamplerParams().samplers, ("top_k",), ()])
def test_greedy_takes_the_lowest_of_equal_ids(temp: float, chain: tuple[str, ...]) -> None:
    s = sampler(temp=temp, samplers=chain)
    assert s.sample(logits(1, 3, 2, 3, 3)) == 1
    assert s.active[-1] == "greedy"


def test_greedy_with_steps_that_take_the_top_away() -> None:
    probs = np.log(np.array([0.6, 0.3, 0.05, 0.01, 0.01, 0.01, 0.01, 0.01])).astype(np.float32)
    assert sampler(temp=0).sample(probs) == 0
    assert sampler(temp=0, xtc_probability=1, xtc_threshold=0.2).sample(probs) == 1
    s = sampler(temp=0, repeat_penalty=100.0)
    s.accept(0)
    assert s.sample(np.array([2, 1, 0, 0, 0, 0, 0, 0], np.float32)) == 1


def test_one_draw_per_token_whatever_is_left() -> None:
    x, sure = logits(1, 1, 1, 1, 1, 1), logits(100)
    a, b = sampler(), sampler()
    a.sample(sure)
    b.sample(x)
    assert [a.sample(x) for _ in range(20)] == [b.sample(x) for _ in range(20)]


def test_order_of_the_chain_matters() -> None:
    # Hot first, then top_p: the sum is reached later than the other way round.
    x = logits(4, 3, 2, 1)
    late = Sampler(SamplerParams(seed=1, samplers=("temperature", "top_p"), temp=5), Vocab())
    early = Sampler(SamplerParams(seed=1, samplers=("top_p", "temperature"), temp=5), Vocab())
    assert len({late.sample(x) for _ in range(400)}) > len({early.sample(x) for _ in range(400)})


def test_penalties_see_the_prompt_and_forget_after_the_window() -> None:
    s = sampler(temp=0, repeat_penalty=10.0, repeat_last_n=2)
    x = logits(4, 3, 2)
    s.accept(0)
    assert s.sample(x) == 1
    s.accept(5)
    s.accept(5)
    assert s.sample(x) == 0
    s.accept(0)
    s.reset()
    assert s.sample(x) == 0


def test_dry_breaks_a_loop() -> None:
    loop = [0, 1, 2, 3] * 3
    x = logits(4, 3, 2, 1)
    s = sampler(temp=0, dry_multiplier=5.0)
    for id in loop:
        s.accept(id)
    assert s.sample(x) == 1
    assert "dry" in s.active


def test_bans_and_bias() -> None:
    assert sampler(temp=0, logit_bias=((0, -math.inf), (2, 3.0))).sample(logits(9, 1, 1)) == 2
    eos = np.zeros(8, np.float32)
    eos[7] = 9
    assert sampler(temp=0).sample(eos) == 7
    assert sampler(temp=0, ignore_eos=True).sample(eos) == 0
    vocab = Vocab()
    vocab.suppress = (0,)
    assert Sampler(SamplerParams(temp=0), vocab).sample(logits(9, 1)) == 1
    with pytest.raises(UsageError, match="--logit-bias 8: the vocabulary has 8"):
        sampler(logit_bias=((8, 1.0),))


def test_what_a_simple_greedy_chain_never_takes() -> None:
    assert sampler(temp=0).never == ()
    assert sampler(temp=0, ignore_eos=True, logit_bias=((2, -math.inf),)).never == (2, 7)
    assert sampler(temp=0.8).never is None
    assert sampler(temp=0, logit_bias=((2, -3.0),)).never is None
    assert sampler(temp=0, repeat_penalty=1.5).never is None
    assert sampler(temp=0, logit_bias=tuple((i, -math.inf) for i in range(8))).never is None


@pytest.mark.parametrize("temp", [0.0, 0.8])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_broken_logits(temp: float, bad: float) -> None:
    x = logits(1, 2, bad)
    with pytest.raises(NumericError, match="token 2 of 8"):
        sampler(temp=temp).sample(x)
    with pytest.raises(NumericError):
        sampler(temp=temp).sample(np.full(8, -np.inf, np.float32))
    ban = tuple((i, -math.inf) for i in range(8))
    with pytest.raises(NumericError, match="forbid every one"):
        sampler(temp=temp, logit_bias=ban).sample(logits(1, 2))


def test_logits_stay_as_they_are() -> None:
    x = logits(1, 2, 3)
    x.flags.writeable = False
    s = sampler(repeat_penalty=1.5, dry_multiplier=1.0, logit_bias=((1, 1.0),), typical=0.9)
    for id in (1, 2, 1, 2):
        s.accept(id)
        s.sample(x)


def test_describe_tells_what_acts() -> None:
    told = sampler().describe()
    assert told["active"] == ["top_k", "top_p", "min_p", "temperature", "dist"]
    assert (told["seed"], told["top_k"], told["greedy"]) == (5, 40, False)
    assert sampler(temp=0).describe()["active"] == ["greedy"]
    told = sampler(logit_bias=((3, -math.inf), (4, 1.5))).describe()
    assert told["logit_bias"] == [[3, "-inf"], [4, 1.5]]
    json.dumps(told, allow_nan=False)
    assert sampler(mirostat=2).active == ["temperature", "mirostat_2"]
    assert sampler(ignore_eos=True, typical=0.5).active[0] == "logit_bias"


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_holds_the_surprise(version: int) -> None:
    n, target = 2000, 3.0
    vocab = Vocab()
    vocab.n_vocab = n
    zipf = -1.1 * np.log(np.arange(1, n + 1))
    x = zipf.astype(np.float32)
    params = SamplerParams(seed=3, temp=1.0, mirostat=version, mirostat_ent=target)
    s = Sampler(params, vocab)
    assert s._mirostat is not None
    ids = [s.sample(x) for _ in range(600)]
    assert abs(s._mirostat.mu) < 50
    p = np.exp(zipf - zipf.max())
    p /= p.sum()
    surprise = -np.log2(p[ids[200:]])
    free = -np.log2(p) @ p
    assert free > 6  # bits per token without mirostat
    assert abs(surprise.mean() - target) < 1.5
    s.reset()
    assert [s.sample(x) for _ in range(30)] == ids[:30]


def test_mirostat_2_by_hand() -> None:
    vocab = Vocab()
    params = SamplerParams(seed=3, temp=1.0, mirostat=2, mirostat_ent=0.5, mirostat_lr=0.1)
    s = Sampler(params, vocab)
    assert s._mirostat is not None
    x = np.log(np.array([0.5, 0.25, 0.125, 0.125, 1e-9, 1e-9, 1e-9, 1e-9])).astype(np.float32)
    # mu starts at 1 bit: only the token of probability 1/2 is allowed, alone its surprise is 0.
    assert s.sample(x) == 0
    assert s._mirostat.mu == pytest.approx(1.0 - 0.1 * (0 - 0.5), abs=1e-6)
