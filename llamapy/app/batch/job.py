"""The job: lines in, records out, with as many under way as the decoder takes."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import llamapy
from llamapy.app.batch.decoder import Answer, Decoder, LocalDecoder, Request
from llamapy.app.batch.denoising import DenoisingDecoder
from llamapy.app.batch.lines import Item, Messages
from llamapy.app.batch.stems import find_stems
from llamapy.app.diffusion import is_diffusion, most_tokens, sizes_for
from llamapy.app.fit import fit
from llamapy.app.generate import ABORTED, Settings, prompt_ids
from llamapy.app.identity import model_hash
from llamapy.app.result import plain
from llamapy.base.errors import LlamapyError
from llamapy.base.log import log
from llamapy.runtime.engine import silent
from llamapy.sample.chain import Sampler
from llamapy.sample.params import RANDOM_SEED
from llamapy.sample.rng import actual_seed

Put = Callable[[Item, dict[str, Any]], None]
MOST_STEMS = 8  # that are kept at a time
# Settings that leave every bit of an answer as it is.
_FREE = ("n_batch", "n_ubatch", "n_threads", "n_threads_batch")


@dataclass(slots=True)
class Totals:
    """Lines and tokens of this job; `left` of those not answered yet, `n_kept` answered before."""

    n_lines: int
    n_kept: int = 0
    n_done: int = 0
    n_failed: int = 0
    n_prompt: int = 0
    n_shared: int = 0  # of these: evaluated once, for an earlier line
    n_generated: int = 0
    seconds: float = 0.0
    repack_s: float = 0.0  # of these: making faster forms of weights
    graphs_s: float = 0.0  # and running graphs; Python has the rest
    graphs: dict[str, int] = field(default_factory=dict)
    left_prompt: int = 0
    left_lines: int = 0
    longest: int = 0  # the most a line may generate
    ended: list[int] = field(default_factory=lambda: [0, 0])  # answers, their tokens

    @property
    def rate(self) -> float:
        """Tokens evaluated and generated a second."""
        n = self.n_prompt - self.n_shared + self.n_generated
        return n / self.seconds if self.seconds else 0.0

    @property
    def python_s(self) -> float:
        """What is neither spent in graphs nor on weights."""
        return max(self.seconds - self.repack_s - self.graphs_s, 0.0)

    @property
    def total(self) -> int:
        """Tokens in all, those of answers to come guessed from those that have come."""
        n, tokens = self.ended
        each = tokens / n if n else self.longest
        done = self.n_prompt + self.n_generated
        under_way = max(self.left_lines * each - (self.n_generated - tokens), 0)
        return done + max(self.left_prompt - self.n_prompt, 0) + int(under_way)


def describe(model: Any, settings: Settings) -> dict[str, Any]:
    """What the answers depend on, for the side file; `seed` is drawn where none is given."""
    values = {k: v for k, v in asdict(settings).items() if k not in _FREE}
    seed = settings.sampling.seed
    params = plain({**values.pop("sampling"), **values})
    params["seed"] = None if seed == RANDOM_SEED else seed
    return {
        "schema_version": 1,
        "command": "batch",
        "llamapy": llamapy.__version__,
        "model": {"hash": model_hash(model.gguf)},
        "params": params,
        "seed": actual_seed(seed),
    }


def requests(
    model: Any, items: Sequence[Item], seed: int
) -> Iterator[tuple[Item, Request | LlamapyError]]:
    """Each item as what a decoder takes, or why it cannot be. `seed` where none is given."""
    for item in items:
        try:
            if item.error is not None:
                raise item.error
            yield item, _request(model, item, seed)
        except LlamapyError as e:
            yield item, e


def _request(model: Any, item: Item, seed: int) -> Request:
    s = item.settings
    if s.sampling.seed == RANDOM_SEED:
        s = replace(s, sampling=replace(s.sampling, seed=seed))
    ids = _ids(model, item)
    plan = fit(
        ids,
        n_predict=most_tokens(model, s.n_predict),
        n_ctx=s.n_ctx,
        n_ctx_train=model.hparams.n_ctx_train,
        on_overflow=s.on_overflow,
        n_head=int(ids[0] == model.tokenizer.bos),
    )
    stacks = model.hparams.stacks
    return Request(item.number, plan, s, begin=(stacks.start,) if stacks.n_dec else ())


def _ids(model: Any, item: Item) -> list[int]:
    if isinstance(item.prompt, Messages):
        from llamapy.app.chat import chat_ids, template_of  # Jinja2: only where it is used

        template = template_of(model.gguf.keys, model.tokenizer)
        return chat_ids(model.tokenizer, template, item.prompt.messages)
    return prompt_ids(model.tokenizer, item.prompt, parse_special=item.settings.parse_special)


def _most_cells(plans: Sequence[Request], n: int) -> int:
    """Places that the `n` largest requests may need."""
    return sum(sorted((p.n_cells for p in plans), reverse=True)[:n])


class Job:
    """`items` not answered yet, on an open model. `put` takes every record as it comes."""

    def __init__(
        self, model: Any, items: Sequence[Item], seed: int, put: Put, totals: Totals
    ) -> None:
        self.model, self.put, self.totals = model, put, totals
        self._diffuses = is_diffusion(model)
        self._items = {item.number: item for item in items}
        self._plans: dict[int, Request] = {}
        self._never: tuple[int, ...] | None = None
        self._failed: list[tuple[Item, LlamapyError]] = []
        for item, made in requests(model, items, seed):
            if isinstance(made, Request):
                self._plans[item.number] = made
                totals.left_prompt += len(made.plan.ids)
                totals.longest = max(totals.longest, made.plan.n_max)
            else:
                self._failed.append((item, made))
        totals.left_lines = len(self._plans)
        together = not self._diffuses
        plain = [request for request in self._plans.values() if together and not request.begin]
        for request, stems in zip(plain, find_stems([r.plan.ids for r in plain]), strict=True):
            self._plans[request.number] = replace(request, stems=stems)

    def run(
        self,
        settings: Settings,
        n_parallel: int,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        tell: Callable[[Totals], None] = lambda totals: None,
    ) -> None:
        """Answer everything, or stop once `interrupted`, with what is finished put."""
        start = time.perf_counter()
        for item, error in self._failed:
            self._put_error(item, error)
        plans = list(self._plans.values())
        n = min(n_parallel, len(plans), settings.n_ubatch, settings.n_batch)
        try:
            if n:
                steps = 0 if self._diffuses else sum(p.plan.n_max for p in plans) // n
                self._never = self._never_taken(plans)
                greedy = n if self._never is not None else 0
                self.model.will_generate(steps, interrupted, silent, greedy)
                self.totals.repack_s = time.perf_counter() - start
                self._decode(plans, n, settings, interrupted, tell)
        except LlamapyError as e:
            if not (e.exit_code == ABORTED and interrupted()):
                raise
        finally:
            self.totals.seconds = time.perf_counter() - start

    def _decode(
        self,
        plans: Sequence[Request],
        n: int,
        settings: Settings,
        interrupted: Callable[[], bool],
        tell: Callable[[Totals], None],
    ) -> None:
        with self._context(plans, n, settings) as ctx, ctx.interruptible():
            try:
                self.drive(self._decoder(ctx, plans, n, settings), plans, interrupted, tell)
            finally:
                c = ctx.counters
                self.totals.graphs_s = c.seconds
                self.totals.graphs = {
                    "built": c.built, "reused": c.reused, "bytes": ctx.graph_bytes
                }  # fmt: skip

    def _decoder(self, ctx: Any, plans: Sequence[Request], n: int, s: Settings) -> Decoder:
        if self._diffuses:
            return DenoisingDecoder(ctx, self.model)
        n_ubatch = min(s.n_ubatch, s.n_batch, ctx.n_ctx)
        more = ctx.n_ctx - _most_cells(plans, n)
        return LocalDecoder(ctx, self.model.tokenizer, n, n_ubatch, more)

    def _context(self, plans: Sequence[Request], n: int, s: Settings) -> Any:
        """Room for the `n` requests that may need most, and for stems; for the longest one of a
        model that takes one at a time."""
        if self._diffuses:
            cells = _most_cells(plans, 1)
            return self.model.context(**sizes_for(s.of_context(n_ctx=cells), cells))
        stems = {stem.number: stem.length for p in plans for stem in p.stems}
        cells = _most_cells(plans, n)
        stem_cells = max(min(sum(stems.values()), cells // 2), *stems.values(), 0)
        sizes = {
            "n_ctx": cells + stem_cells,
            "n_ctx_seq": max(p.plan.n_ctx for p in plans),
            "n_seq_max": n + min(len(stems), MOST_STEMS),
            "n_longest": 0 if self.model.hparams.stacks.n_dec else max(p.n_cells for p in plans),
        }
        return self.model.context(**s.of_context(**sizes), never=self._never, rounded=True)

    def _never_taken(self, plans: Sequence[Request]) -> tuple[int, ...] | None:
        """What no line may take, where all lines take the most likely token but for that."""
        if self._diffuses or not all(p.settings.sampling.greedy for p in plans):
            return None
        kinds = {replace(p.settings.sampling, seed=0) for p in plans}
        never = {Sampler(kind, self.model.tokenizer).never for kind in kinds}
        return never.pop() if len(never) == 1 else None

    def drive(
        self,
        decoder: Decoder,
        plans: Sequence[Request],
        interrupted: Callable[[], bool],
        tell: Callable[[Totals], None],
    ) -> None:
        """Keep the decoder busy until everything is answered."""
        waiting = iter(plans)
        t = self.totals
        at = 0
        while not interrupted():
            while decoder.n_free and at < len(plans):
                decoder.start(next(waiting))
                at += 1
            if not decoder.n_busy:
                return
            answers = decoder.step()
            t.n_prompt, t.n_generated = decoder.n_prompt, decoder.n_generated
            t.n_shared = decoder.n_shared
            for answer in answers:
                self._put(answer)
            tell(t)

    def _put(self, answer: Answer) -> None:
        item, t = self._items[answer.number], self.totals
        t.left_lines -= 1
        t.ended[0] += 1
        t.ended[1] += len(answer.ids)
        if answer.error is not None:
            self._put_error(item, answer.error)
            return
        t.n_done += 1
        self.put(item, self._record(item, self._plans[item.number], answer))

    def _record(self, item: Item, request: Request, a: Answer) -> dict[str, Any]:
        dropped = request.plan.dropped
        return {
            item.key: item.id,
            "status": "ok",
            "text": a.text,
            **({"text_base64": base64.b64encode(a.raw).decode()} if a.replaced else {}),
            "ids": a.ids,
            "finish_reason": a.reason,
            "stop": None if a.stop is None else a.stop.decode("utf-8", "replace"),
            "truncated": dropped is not None,
            "dropped_tokens": None if dropped is None else list(dropped),
            "counts": {"prompt": len(request.plan.ids), "generated": len(a.ids)},
            "seed": a.seed,
            "digest": item.digest,
        }

    def _put_error(self, item: Item, e: LlamapyError) -> None:
        self.totals.n_failed += 1
        log.info(f"line {item.number}: {e}")
        error = {"code": e.exit_code, "kind": type(e).__name__, "message": str(e)}
        self.put(
            item, {item.key: item.id, "status": "error", "error": error, "digest": item.digest}
        )
