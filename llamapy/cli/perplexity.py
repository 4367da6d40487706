"""`llamapy perplexity`: how well a model foretells a text."""

from __future__ import annotations

import json as jsonlib
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import BatchError, UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.interrupt import interruption
from llamapy.cli.progress import Progress
from llamapy.cli.tasks import KeepOptions, TaskOptions, went_on

if TYPE_CHECKING:
    from llamapy.app.evaluate.base import Base
    from llamapy.app.evaluate.base_writer import BaseWriter
    from llamapy.app.evaluate.divergence import Divergence
    from llamapy.app.evaluate.foreign_base import ForeignBase
    from llamapy.app.evaluate.ledger import Ledger
    from llamapy.app.evaluate.perplexity import Chunk, Estimate, Perplexity
    from llamapy.app.evaluate.windows import PerplexitySettings, Windows

    AnyBase = Base | ForeignBase


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions:
    """What is scored, and how it is cut."""

    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="The text; -: stdin.")
    ] = None
    method: Annotated[
        str | None, typer.Option("--method", metavar="NAME", help="[llamacpp] or hf: see docs.")
    ] = None
    chunks: Annotated[
        int, typer.Option("--chunks", metavar="N", help="At most so many windows; -1: all.")
    ] = -1
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride", "--ppl-stride", metavar="N", min=0, help="A window every N tokens."
        ),
    ] = None
    kl_base: Annotated[
        str | None,
        typer.Option("--kl-base", metavar="FILE", help="Write what the model says, as a base."),
    ] = None
    kl: Annotated[
        str | None,
        typer.Option("--kl", metavar="FILE", help="Compare with a base; its text is the text."),
    ] = None


def command(
    model: options.ModelOptions,
    context: options.ContextOptions,
    text: TextOptions,
    tasks: TaskOptions,
    keep: KeepOptions,
) -> None:
    """Perplexity of a text, by the methods and to the numbers of llama-perplexity or Hugging Face;
    divergence of a model from another; answers chosen among given ones."""
    options.begin(verbose=keep.verbose, json=keep.json, strict=keep.strict)
    _check(text, keep)
    tasks.check(text.kl is not None or text.kl_base is not None or text.method is not None)
    raw = None
    if text.file is not None:
        raw = streams.read_stdin() if text.file == "-" else streams.read_file(text.file)
    with options.open_model(model, threads=context.threads) as opened:
        if tasks.kind is None:
            answer = _Measurement(opened, context, text, keep).answer(raw)
        else:
            answer = tasks.answer(opened, raw or b"", context, keep)
    with streams.answer_to(keep.output) as out:
        shown = _text if tasks.kind is None else tasks.text
        out.write((jsonlib.dumps(answer) if keep.json else shown(answer)) + "\n")
    if failed := answer.get("n_failed"):
        raise BatchError(f"{failed} of {answer['n_tasks']} tasks could not be asked")


def _check(text: TextOptions, keep: KeepOptions) -> None:
    if text.file is None and text.kl is None:
        raise UsageError("of which text? give -f FILE (or -f - for stdin)")
    if text.method not in (None, "llamacpp", "hf"):
        raise UsageError(f"--method {text.method}: llamacpp or hf")
    if keep.resume and keep.chunks_out is None and text.kl_base is None:
        raise UsageError("--resume needs --chunks-out FILE or --kl-base FILE, what is done so far")
    if text.kl_base is not None and text.kl is not None:
        raise UsageError("--kl-base writes a base, --kl compares with one: one at a time")
    if text.chunks == 0 or text.chunks < -1:
        raise UsageError(f"--chunks {text.chunks}: a number of windows, or -1 for all")


class _Measurement:
    """One run over a text."""

    def __init__(
        self, model: Any, context: options.ContextOptions, text: TextOptions, keep: KeepOptions
    ) -> None:
        self.model, self.context, self.text, self.keep = model, context, text, keep

    def answer(self, raw: bytes | None) -> dict[str, Any]:
        from llamapy.app.evaluate.foreign_base import open_base

        with ExitStack() as stack:
            base: AnyBase | None = None
            if self.text.kl is not None:
                base = open_base(self.text.kl, self.model)
                stack.callback(base.close)
            s, w = self._windows(raw, base)
            return self._run(stack, s, w, base)

    def _windows(
        self, raw: bytes | None, base: AnyBase | None
    ) -> tuple[PerplexitySettings, Windows]:
        from llamapy.app.evaluate.windows import text_ids, windows

        ids = None if raw is None else text_ids(self.model.tokenizer, raw)
        if base is None:
            assert ids is not None
            s = self._settings()
            return s, windows(self.model, ids, s)
        if ids is not None and not base.same_text(ids):
            raise UsageError(f"{self.text.kl}: a base of another text (its tokens differ)")
        for name, given, theirs in (
            ("-c", self.context.ctx_size, base.w.size),
            ("--stride", self.text.stride, base.w.step),
            ("--method", self.text.method, base.w.method),
        ):
            if given is not None and given != theirs:
                raise UsageError(f"{name} {given}: the base was made with {theirs}")
        s = replace(self._settings(), n_ctx=base.w.size)
        return s, base.w if s.n_chunks is None else replace(base.w, n=min(base.w.n, s.n_chunks))

    def _settings(self) -> PerplexitySettings:
        from llamapy.app.evaluate.windows import DEFAULT_CTX, PerplexitySettings

        return PerplexitySettings(
            **self.context.settings(n_ctx=DEFAULT_CTX),
            method=self.text.method or "llamacpp",
            n_chunks=None if self.text.chunks < 0 else self.text.chunks,
            stride=self.text.stride or 0,
            n_parallel=self.keep.parallel,
        )

    def _run(
        self, stack: ExitStack, s: PerplexitySettings, w: Windows, base: AnyBase | None
    ) -> dict[str, Any]:
        from llamapy.app.evaluate.divergence import Divergence
        from llamapy.app.evaluate.ledger import chunk_parser, ledger
        from llamapy.app.evaluate.perplexity import Estimate, Perplexity
        from llamapy.app.evaluate.windows import identity

        about = identity(self.model, w, s) | ({} if base is None else {"base": base.about})
        writer = self._writer(stack, w, about)
        lines = None
        if self.keep.chunks_out is not None:
            parse = chunk_parser(w, base is not None)
            opened = ledger(self.keep.chunks_out, about, parse, resume=self.keep.resume)
            lines = stack.enter_context(opened)
        run = Perplexity(self.model, w, s, base or writer)
        total = _Totals(Estimate(), None if base is None else Divergence(), lines)
        done = writer.done if writer else lines.done[: w.n] if lines else []
        for chunk in done:
            total.add(chunk)
        size, step = f"of {w.size} tokens", f"one every {w.step}"
        log.info(f"method {w.method}: {w.n} windows {size}, {step}, BOS {w.bos}, {len(done)} done")
        with interruption(lambda: went_on(total.n, w.n, self.keep, self.text.kl_base)):
            _run(run, total, len(done))
        first = {"schema_version": 1, "command": "perplexity"}
        return first | about | total.result() | _circumstances(run, len(done))

    def _writer(self, stack: ExitStack, w: Windows, about: dict[str, Any]) -> BaseWriter | None:
        from llamapy.app.evaluate.base_writer import base_writer

        path = self.text.kl_base
        if path is None:
            return None
        opened = base_writer(path, self.model, w, about, resume=self.keep.resume)
        return stack.enter_context(opened)


@dataclass(slots=True)
class _Totals:
    """What the windows say together. `lines`: where each is written that is not there."""

    estimate: Estimate
    divergence: Divergence | None
    lines: Ledger[Chunk] | None
    n: int = 0

    def add(self, chunk: Chunk) -> None:
        from llamapy.app.evaluate.ledger import chunk_fields

        self.n += 1
        self.estimate.add(chunk)
        if self.divergence:
            self.divergence.add(chunk)
        if self.lines and chunk.index >= len(self.lines.done):
            self.lines.write(chunk_fields(chunk, self.estimate.ppl))

    def take(self, chunk: Chunk) -> None:
        """A window that is new."""
        self.add(chunk)
        words = f"[{chunk.index + 1}]{self.estimate.ppl:.4f}"
        if self.divergence:
            kl, ln = (self.divergence.so_far()[name] for name in ("kl", "ln_ratio"))
            words += f" ln(PPL/base) {_spread(ln, 5)} KL {_spread(kl, 5)}"
        log.info(words)

    def result(self) -> dict[str, Any]:
        e = self.estimate
        large = e.ppl == float("inf")
        out = {"ppl": None if large else e.ppl, "ppl_error": None if large else e.error}
        out |= {"nll": e.nll / e.n, "n_scored": e.n}
        return out | ({"divergence": self.divergence.block()} if self.divergence else {})


def _run(run: Perplexity, total: _Totals, start: int) -> None:
    """The windows from `start` on, shown, written and added up."""
    from llamapy.app.evaluate.perplexity import Evaluated

    w = run.w
    before, tokens = 0, sum(w.span(i).n_evaluated for i in range(start, w.n))
    with Progress("perplexity", "tokens", shown=not log.json) as progress:
        for event in run.run(start):
            if isinstance(event, Evaluated):
                progress.update(before + event.done, tokens)
                before += event.total if event.done == event.total else 0
            else:
                total.take(event)


def _circumstances(run: Perplexity, n_resumed: int) -> dict[str, Any]:
    return {
        "n_chunks": run.w.n,
        "n_resumed": n_resumed,
        "n_parallel": run.n_parallel,
        "isa": run.isa or None,
        "threads": run.n_threads,
        "seconds": {name: round(s, 4) for name, s in run.seconds.items()},
        "warnings": log.warned,
    }


def _text(answer: dict[str, Any]) -> str:
    error = answer["ppl_error"]
    spread = "no error: the variance is not positive" if error is None else f"+/- {error:.5f}"
    ppl = "too large" if answer["ppl"] is None else f"{answer['ppl']:.4f}"
    out = f"Final estimate: PPL = {ppl} {spread}"
    return out + ("\n" + _block(answer["divergence"]) if "divergence" in answer else "")


def _block(d: dict[str, Any]) -> str:
    """The statistics of two models, a line each."""
    r = d["correlation"]
    rows = [
        ("Mean PPL(Q)", _spread(d["ppl"], 6)),
        ("Mean PPL(base)", _spread(d["ppl_base"], 6)),
        ("Cor(ln(PPL(Q)), ln(PPL(base)))", "none" if r is None else f"{100 * r:6.2f}%"),
        ("Mean ln(PPL(Q)/PPL(base))", _spread(d["ln_ratio"], 6)),
        ("Mean PPL(Q)/PPL(base)", _spread(d["ratio"], 6)),
        ("Mean PPL(Q)-PPL(base)", _spread(d["difference"], 6)),
        ("Mean KLD", _spread(d["kl"], 6)),
        *((_point(name) + " KLD", f"{x:.6f}") for name, x in _points(d["kl"])),
        ("Mean delta p", _spread(d["delta_p"], 3, percent=True)),
        *((_point(name) + " delta p", f"{100 * x:.3f}%") for name, x in _points(d["delta_p"])),
        ("RMS delta p", _spread(d["delta_p_rms"], 3, percent=True)),
        ("Same top p", _spread(d["same_top"], 3, percent=True)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}} : {value}" for name, value in rows)


def _points(values: dict[str, Any]) -> list[tuple[str, float]]:
    return [(name, x) for name, x in values.items() if name not in ("value", "error")]


def _point(name: str) -> str:
    names = {"max": "Maximum", "min": "Minimum", "p50": "Median"}
    return names.get(name, f"{name[1:]}%")


def _spread(value: dict[str, Any], digits: int, *, percent: bool = False) -> str:
    scale, sign = (100, "%") if percent else (1, "")
    if value["value"] is None:
        return "too large"
    error = "?" if value["error"] is None else f"{scale * value['error']:.{digits}f}"
    return f"{scale * value['value']:.{digits}f} +/- {error}{sign}"
