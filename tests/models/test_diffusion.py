"""Answers of diffusion models: masks that become tokens, the surest first."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_model import FakeTokenizer

from llamapy.app.diffusion import ALGORITHMS, Denoiser, Diffusion, Step, is_diffusion
from llamapy.app.generate import Finished, Settings, generate
from llamapy.base.errors import UsageError
from llamapy.sample import SamplerParams

MASK, N = 9, 10


class Script:
    """Wants token (place mod 7), the later the surer; notes what it was asked."""

    def __init__(self, shifted: bool = False) -> None:
        self.shifted, self.asked = shifted, list[tuple[list[int], list[int]]]()

    def clear(self) -> None:
        pass

    def decode_batch(self, batch: Any) -> np.ndarray:
        rows = np.flatnonzero(batch.want)
        self.asked.append((batch.tokens.tolist(), rows.tolist()))
        out = np.zeros((len(rows), N), np.float32)
        for i, at in enumerate(rows + self.shifted):
            out[i, at % 7] = 1.0 + at
        return out


def greedy(row: np.ndarray) -> tuple[int, float, np.ndarray]:
    probs = np.exp(row.astype(np.float64) - row.max())
    probs /= probs.sum()
    return int(row.argmax()), float(probs.max()), probs


def answer(
    n: int = 8, shifted: bool = False, **how: Any
) -> tuple[list[list[int]], Script, list[Step]]:
    """The tokens before each step and at the end."""
    ctx = Script(shifted)
    d = Denoiser(
        ctx, [1, 2], n, Diffusion(**how), mask=MASK, shifted=shifted, draw=greedy,
        chance=iter(np.linspace(0, 0.99, 999).tolist()).__next__,
    )  # fmt: skip
    steps = list(d.run())
    return [*(tokens for tokens, _ in ctx.asked), d.tokens.tolist()], ctx, steps


WHOLE = [1, 2, *(at % 7 for at in range(2, 10))]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize(("steps", "block"), [(1, 0), (4, 0), (8, 4), (100, 3), (2, 8)])
def test_all_masks_become_tokens(algorithm, shifted, steps, block) -> None:
    seen, ctx, took = answer(shifted=shifted, algorithm=algorithm, steps=steps, block=block)
    assert seen[-1] == WHOLE or algorithm == "origin"
    assert seen[0] == [1, 2] + [MASK] * 8
    assert (
        took[-1].done
        <= took[-1].total
        == max(steps // max(1, -(-8 // (block or 8))), 1) * (-(-8 // (block or 8)))
    )
    for tokens, rows in ctx.asked:
        masks = [i for i, t in enumerate(tokens) if t == MASK]
        wanted = {i - shifted for i in masks}
        assert set(rows) <= wanted
        if not block:
            assert set(rows) == wanted


def test_the_surest_come_first_and_blocks_from_the_left() -> None:
    seen, _, _ = answer(steps=4, block=8)
    done = [[i for i, t in enumerate(tokens) if t != MASK and i > 1] for tokens in seen]
    assert done == [[], [8, 9], [6, 7, 8, 9], [4, 5, 6, 7, 8, 9], list(range(2, 10))]
    seen, _, _ = answer(steps=4, block=4)
    done = [[i for i, t in enumerate(tokens) if t != MASK and i > 1] for tokens in seen]
    assert done == [[], [4, 5], [2, 3, 4, 5], [2, 3, 4, 5, 8, 9], list(range(2, 10))]


def test_the_schedule_without_blocks() -> None:
    """Of what is left in step i of 4, with eps 0: 1 - (1 - (i + 1) / 4) / (1 - i / 4)."""
    seen, _, _ = answer(n=16, steps=4, eps=0.0)
    left = [sum(t == MASK for t in tokens) for tokens in seen]
    assert left == [16, 12, 8, 4, 0]
    seen, _, _ = answer(n=16, steps=4, eps=0.5)
    assert [sum(t == MASK for t in tokens) for tokens in seen] == [16, 14, 12, 10, 0]


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(UsageError, match="expected one of origin, entropy"):
        Diffusion(algorithm="luck")


class Tokenizer(FakeTokenizer):
    n_vocab = 128
    eog = frozenset({5})
    masks: int | None = 127

    def role(self, name: str) -> int | None:
        return self.masks if name == "mask" else None

    def piece(self, id: int, special: bool = False) -> bytes:
        return b"%d " % id


def run(model: Any, tokenizer: Tokenizer, **how: Any) -> Finished:
    """As the command does it, on a real model with another tokenizer."""
    seen = SimpleNamespace(
        tokenizer=tokenizer, hparams=model.hparams, arch=model.arch, gguf=model.gguf,
        context=model.context, will_generate=model.will_generate,
    )  # fmt: skip
    settings = Settings(n_threads=1, type_k="f32", type_v="f32", **how)
    *_, end = generate(seen, [1, 2, 3], settings)
    assert isinstance(end, Finished)
    return end


@pytest.mark.parametrize("name", ["dream-dense", "llada-dense", "llada-moe-moe", "rnd1-moe"])
def test_models_answer(open_model, name) -> None:
    model, greedy = open_model(name), SamplerParams(temp=0.0)
    assert is_diffusion(model)
    end = run(
        model, Tokenizer(), n_predict=6, sampling=greedy, diffusion=Diffusion(steps=6, block=6)
    )
    tokens = [1, 2, 3] + [127] * 6
    for _ in range(6):  # the definition: of all masks the one whose best token is likeliest
        with model.context(n_ctx=256, type_k="f32", type_v="f32", n_threads=1) as ctx:
            rows = ctx.decode(tokens, logits="all").astype(np.float64)
        probs = np.exp(rows - rows.max(axis=1, keepdims=True))
        probs /= probs.sum(axis=1, keepdims=True)
        left = [i for i in range(3, 9) if tokens[i] == 127]
        if not left:
            break
        best = max(left, key=lambda i: probs[i - 1].max())
        tokens[best] = int(probs[best - 1].argmax())
    want = tokens[3:]
    want = want[: want.index(5)] if 5 in want else want
    assert end.ids == want
    assert end.reason == ("eos" if 5 in tokens[3:] else "length")


def test_the_same_seed_gives_the_same_answer(open_model) -> None:
    model = open_model("llada-dense")
    how = {"n_predict": 16, "diffusion": Diffusion(steps=4, algorithm="random")}
    a, b, c = (
        run(model, Tokenizer(), sampling=SamplerParams(temp=1.0, seed=seed), **how).ids
        for seed in (3, 3, 4)
    )
    assert a == b != c


def test_a_model_without_a_mask_token_is_refused(open_model) -> None:
    tokenizer = Tokenizer()
    tokenizer.masks = None
    with pytest.raises(UsageError, match="names no mask token"):
        run(open_model("dream-dense"), tokenizer)
    assert not is_diffusion(open_model("llama-dense"))
