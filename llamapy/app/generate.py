"""A prompt in, events out: tokenise, fit, evaluate the prompt, then one token after the other.

`generate` works on any object that has the shape of `llamapy.api.Model`, so its rules are tested
with a model that is a script of logits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from llamapy.app.diffusion import (
    Denoiser,
    Diffusion,
    Step,
    is_diffusion,
    most_tokens,
    sizes_for,
)
from llamapy.app.fit import Fit, fit
from llamapy.app.sizes import ContextSettings
from llamapy.base.errors import LlamapyError, UsageError
from llamapy.base.log import log
from llamapy.runtime.engine import Progress, silent
from llamapy.sample import SamplerParams
from llamapy.sample.chain import Sampler
from llamapy.tokenize.stream import Stream

ABORTED = 130  # exit code of the error that ends a run on request


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ContextSettings):
    """How to generate. `n_predict` negative: until the model or the context ends."""

    n_predict: int = -1
    on_overflow: str = "error"
    parse_special: bool = False  # control tokens written in the prompt count as such
    print_special: bool = False  # control tokens in the output are printed
    stop: tuple[str | bytes, ...] = ()
    include_stop: bool = False
    sampling: SamplerParams = field(default_factory=SamplerParams)
    diffusion: Diffusion = field(default_factory=Diffusion)  # of models that answer so


@dataclass(frozen=True, slots=True)
class Started:
    """Before the prompt is evaluated. `dropped` is the range of prompt tokens left out; `sampling`
    the sampler's parameters and its seed, as `Sampler.describe` tells them."""

    ids: list[int]
    n_ctx: int
    n_max: int
    dropped: tuple[int, int] | None
    sampling: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompt tokens evaluated so far."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token: its own bytes, and the text that is certain now (may be empty or hold
    more than this token: characters and possible stop texts are held back until complete)."""

    id: int
    bytes: bytes
    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The end. `reason`: eos, stop, length, context or interrupted. `rest` is text held back until
    now, `text` the whole answer, `raw` its bytes before invalid UTF-8 became U+FFFD. `seconds` by
    phase: prompt, decode, sample, text, total."""

    reason: str
    stop: bytes | None
    rest: str
    text: str
    raw: bytes
    replaced: bool
    ids: list[int]
    n_prompt: int
    n_cached: int
    seed: int
    seconds: dict[str, float]
    n_built: int
    n_reused: int
    isa: str
    n_threads: int
    buffers: dict[str, int] = field(default_factory=dict)  # bytes, as Context.buffer_bytes has them

    @property
    def n_generated(self) -> int:
        return len(self.ids)


Event = Started | Prefill | Step | Token | Finished


def generate(
    model: Any,
    prompt: str | bytes | Sequence[int],
    settings: Settings | None = None,
    *,
    interrupted: Callable[[], bool] = lambda: False,
    progress: Progress = silent,
) -> Iterator[Event]:
    """Continue `prompt` (text, or token ids as they are). Ends with one `Finished`.

    `interrupted` is asked between steps; once true, generation ends with what there is. `progress`
    hears of what is done between the first token and the second, if that takes long. Raises
    UsageError for a prompt that is empty or no text the model can read, ContextError when it does
    not fit, NumericError for logits that are no numbers.
    """
    s = settings if settings is not None else Settings()
    tokenizer = model.tokenizer
    ids = prompt_ids(tokenizer, prompt, parse_special=s.parse_special)
    diffuses = is_diffusion(model)
    plan = fit(
        ids,
        n_predict=most_tokens(model, s.n_predict),
        n_ctx=s.n_ctx,
        n_ctx_train=model.hparams.n_ctx_train,
        on_overflow=s.on_overflow,
        n_head=int(ids[0] == tokenizer.bos),
    )
    _tell(plan, model.hparams.n_ctx_train)
    sizes = s.of_context(n_ctx=plan.n_ctx)
    if diffuses:
        sizes = sizes_for(sizes, len(plan.ids) + plan.n_max)
    with model.context(**sizes) as ctx:
        run = _Run(ctx, model, s, plan, interrupted, progress)
        yield Started(plan.ids, plan.n_ctx, plan.n_max, plan.dropped, run.sampler.describe())
        with getattr(ctx, "interruptible", nullcontext)():
            yield from run.events(diffuses)


def prompt_ids(
    tokenizer: Any, prompt: str | bytes | Sequence[int], *, parse_special: bool
) -> list[int]:
    """Ids of a prompt, BOS where the file asks for it. An empty text is BOS alone where there is
    one; UsageError where not."""
    if not isinstance(prompt, str | bytes):
        if not len(prompt):
            raise UsageError("the prompt has no tokens")
        return [int(i) for i in prompt]
    ids: list[int] = tokenizer.encode(prompt, add_special=True, parse_special=parse_special)
    if not ids:
        if tokenizer.bos is None:
            raise UsageError("empty prompt, and the model has no BOS token to begin with")
        log.warn("W08", "empty prompt: beginning with the BOS token alone, which the file asks not")
        return [tokenizer.bos]
    if not parse_special and (found := tokenizer.specials_in(prompt)):
        log.warn("W06", f"the prompt contains {found[0]!r} as plain text (--special on reads it)")
    return ids


def _tell(plan: Fit, n_ctx_train: int) -> None:
    if plan.dropped is not None:
        a, b = plan.dropped
        log.warn("W04", f"left out {b - a} prompt tokens, {a} to {b - 1}, to fit {plan.n_ctx}")
    if plan.n_ctx > n_ctx_train:
        log.warn("W05", f"a context of {plan.n_ctx}; the model was trained for {n_ctx_train}")


class _Run:
    """One generation on an open context."""

    def __init__(
        self,
        ctx: Any,
        model: Any,
        s: Settings,
        plan: Fit,
        interrupted: Callable[[], bool],
        progress: Progress,
    ) -> None:
        self.ctx, self.model, self.s, self.plan = ctx, model, s, plan
        self.tokenizer = tokenizer = model.tokenizer
        self.interrupted, self.progress = interrupted, progress
        self.sampler = Sampler(s.sampling, tokenizer)
        stacks = model.hparams.stacks
        self.encodes = stacks.n_dec > 0
        self.begin = [stacks.start] if self.encodes else plan.ids
        for id in self.begin:
            self.sampler.accept(id)
        self.stream = Stream(s.stop, include_stop=s.include_stop)
        self.ids: list[int] = []
        self.texts: list[str] = []
        self.seconds = dict.fromkeys(("prompt", "repack", "decode", "sample", "text"), 0.0)
        self.started = time.perf_counter()

    def events(self, diffuses: bool) -> Iterator[Event]:
        reason = "interrupted"
        try:
            logits = None if diffuses else (yield from self._prefill())
            if diffuses:
                reason = yield from self._denoise()
            elif logits is not None:
                reason = yield from self._tokens(logits)
        except LlamapyError as e:
            if not (e.exit_code == ABORTED and self.interrupted()):
                raise
        yield self._finished(reason)

    def _prefill(self) -> Generator[Event, None, Any]:
        """The prompt, a ubatch at a time; logits of its last token, None when interrupted."""
        if self.encodes:
            return (yield from self._encode())
        ids, step = self.plan.ids, min(self.s.n_batch, self.s.n_ubatch)
        logits = None
        for at in range(0, len(ids), step):
            if self.interrupted():
                return None
            chunk = ids[at : at + step]
            last = at + len(chunk) == len(ids)
            logits = self._decode(chunk, "last" if last else "none", "prompt")
            yield Prefill(at + len(chunk), len(ids))
        return logits

    def _encode(self) -> Generator[Event, None, Any]:
        """The prompt as a text to attend to; logits of the token that every answer begins with."""
        start, n = time.perf_counter(), len(self.plan.ids)
        self.ctx.encode(self.plan.ids)
        self.seconds["prompt"] += time.perf_counter() - start
        yield Prefill(n, n)
        return None if self.interrupted() else self._decode(self.begin, "last", "prompt")

    def _tokens(self, logits: Any) -> Generator[Event, None, str]:
        """The answer, and why it ended."""
        while len(self.ids) < self.plan.n_max:
            if reason := (yield from self._say(self._sample(logits))):
                return reason
            if self.interrupted():
                return "interrupted"
            if len(self.ids) == 1:
                self._repack()
            if len(self.ids) < self.plan.n_max:
                logits = self._decode(self.ids[-1:], "last", "decode")
        return self.plan.limit

    def _denoise(self) -> Generator[Event, None, str]:
        """The answer of a diffusion model, once all of it stands; nothing when interrupted."""
        start = time.perf_counter()
        ids, n, how = self.plan.ids, self.plan.n_max, self.s.diffusion
        denoiser = Denoiser.of(self.ctx, self.model, ids, n, how, self.sampler)
        for step in denoiser.run():
            yield step
            if self.interrupted():
                return "interrupted"
        self.seconds["decode"] += time.perf_counter() - start
        for id in denoiser.answer:
            if reason := (yield from self._say(id)):
                return reason
        return self.plan.limit

    def _say(self, id: int) -> Generator[Event, None, str | None]:
        """One more token of the answer, and why it ends there, if it does."""
        if id in self.tokenizer.eog and not self.s.sampling.ignore_eos:
            return "eos"
        self.ids.append(id)
        yield self._token(id)
        return None if self.stream.stopped is None else "stop"

    def _repack(self) -> None:
        """Between the first token and the second: the first one comes as early as it can, and the
        graph of the steps to come is not built yet."""
        start = time.perf_counter()
        self.model.will_generate(self.plan.n_max - 1, self.interrupted, self.progress)
        self.seconds["repack"] += time.perf_counter() - start

    def _decode(self, ids: list[int], logits: str, phase: str) -> Any:
        start = time.perf_counter()
        out = self.ctx.decode(ids, logits=logits, copy=False)
        self.seconds[phase] += time.perf_counter() - start
        return out

    def _sample(self, logits: Any) -> int:
        start = time.perf_counter()
        id = self.sampler.sample(logits[-1])
        self.sampler.accept(id)
        self.seconds["sample"] += time.perf_counter() - start
        return id

    def _token(self, id: int) -> Token:
        start = time.perf_counter()
        piece = self.tokenizer.piece(id, special=self.s.print_special)
        text = self.stream.push(piece)
        self.texts.append(text)
        self.seconds["text"] += time.perf_counter() - start
        return Token(id, piece, text)

    def _finished(self, reason: str) -> Finished:
        rest = self.stream.finish()
        if self.stream.replaced:
            log.warn("W07", "bytes that are no UTF-8 were replaced by U+FFFD in the output")
        total = time.perf_counter() - self.started
        return Finished(
            reason=reason,
            stop=self.stream.stopped,
            rest=rest,
            text="".join([*self.texts, rest]),
            raw=self.stream.raw,
            replaced=self.stream.replaced,
            ids=self.ids,
            n_prompt=len(self.plan.ids),
            n_cached=0,
            seed=self.sampler.seed,
            seconds={**self.seconds, "total": total},
            n_built=self.ctx.counters.built,
            n_reused=self.ctx.counters.reused,
            isa=self.ctx.isa,
            n_threads=self.ctx.n_threads,
            buffers=getattr(self.ctx, "buffer_bytes", dict)(),
        )
