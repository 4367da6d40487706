"""Where the time of an answer goes: opening, prompt, tokens, sampling, text, each on its own."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from llamapy.app.bench.params import Case
from llamapy.app.bench.stats import summary
from llamapy.sample.chain import Sampler
from llamapy.sample.params import SamplerParams
from llamapy.tokenize.stream import Stream

PARTS = ("prefill", "decode", "sample", "detokenise")


@dataclass(slots=True)
class Phases:
    """Seconds of each part in each repetition, for `n_prompt` and `n_gen` tokens; sampling by the
    default chain on the logits that came out. `tokenizer_s` and detokenising: None for a model
    without a vocabulary."""

    n_prompt: int
    n_gen: int
    load_s: float
    tokenizer_s: float | None
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in PARTS})

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "n_prompt": self.n_prompt,
            "n_gen": self.n_gen,
            "load_s": self.load_s,
            "tokenizer_s": self.tokenizer_s,
        }
        for name, values in self.seconds.items():
            n = self.n_prompt if name == "prefill" else self.n_gen
            median = summary(values)["median"] if values else None
            out[f"{name}_s"] = median
            out[f"{name}_us_per_token"] = median / n * 1e6 if median is not None else None
            out[f"{name}_samples_s"] = values
        return out


class NoText:
    """Ids alone: what a sampler asks of a vocabulary, for a model that has none."""

    eog: frozenset[int] = frozenset()
    suppress: tuple[int, ...] = ()

    def __init__(self, n_vocab: int) -> None:
        self.n_vocab = n_vocab

    def piece(self, id: int, special: bool = False) -> bytes:
        return b""

    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]:
        return []


def phases(model: Any, case: Case, load_s: float, repetitions: int) -> Phases:
    """Answer a prompt of random tokens `repetitions` times. `case` gives sizes and threads."""
    tokenizer, tokenizer_s = _tokenizer(model)
    out = Phases(case.n_prompt, case.n_gen, load_s, tokenizer_s)
    with model.context(
        n_ctx=case.n_prompt + case.n_gen,
        n_batch=case.n_batch,
        n_ubatch=case.n_ubatch,
        type_k=case.type_k,
        type_v=case.type_v,
        n_threads=case.n_threads,
    ) as ctx:
        vocab = tokenizer or NoText(model.hparams.n_vocab)
        for i in range(-1, repetitions):
            ctx.clear()
            with ctx.interruptible():
                seconds = _answer(ctx, vocab, case, seed=max(i, 0))
            if i < 0:  # that was to warm up
                continue
            for name in PARTS if tokenizer is not None else PARTS[:-1]:
                out.seconds[name].append(seconds[name])
    return out


def _tokenizer(model: Any) -> tuple[Any, float | None]:
    if "tokenizer.ggml.model" not in model.gguf.keys:
        return None, None
    start = time.perf_counter()
    tokenizer = model.tokenizer
    return tokenizer, time.perf_counter() - start


def _answer(ctx: Any, vocab: Any, case: Case, seed: int) -> dict[str, float]:
    """One prompt and its answer, which no token ends."""
    clock = time.perf_counter
    ids = np.random.default_rng(seed).integers(0, ctx.hp.n_vocab, case.n_prompt, dtype=np.int32)
    sampler, stream = Sampler(SamplerParams(), vocab, seed=seed), Stream()
    seconds = dict.fromkeys(PARTS, 0.0)
    start = clock()
    logits = ctx.decode(ids, copy=False)
    seconds["prefill"] = clock() - start
    for id in ids.tolist():
        sampler.accept(id)
    for _ in range(case.n_gen):
        start = clock()
        id = sampler.sample(logits[-1])
        sampler.accept(id)
        sampled = clock()
        stream.push(vocab.piece(id))
        texted = clock()
        logits = ctx.decode([id], copy=False)
        decoded = clock()
        seconds["sample"] += sampled - start
        seconds["detokenise"] += texted - sampled
        seconds["decode"] += decoded - texted
    return seconds
