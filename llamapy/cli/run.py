"""`llamapy run`: a prompt in, its continuation on stdout, nothing else there."""

from __future__ import annotations

import json as jsonlib
import sys
import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llamapy.base.errors import UsageError
from llamapy.base.log import log
from llamapy.cli import options, streams
from llamapy.cli.interrupt import Interrupts
from llamapy.cli.progress import Progress
from llamapy.cli.sampling import SamplingOptions

if TYPE_CHECKING:
    from llamapy.app.diffusion import Diffusion
    from llamapy.app.generate import Event, Finished, Settings, Started


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """What to continue."""

    prompt: Annotated[
        str | None, typer.Option("-p", "--prompt", metavar="TEXT", help="The prompt; -: stdin.")
    ] = None
    file: Annotated[
        str | None, typer.Option("-f", "--file", metavar="FILE", help="The prompt, byte for byte.")
    ] = None
    escape: Annotated[
        bool, typer.Option("-e", "--escape/--no-escape", help=r"Read \n, \t, \xHH in texts.")
    ] = False
    special: Annotated[
        bool,
        typer.Option("--special/--no-special", help="Control tokens written in the prompt count."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """Where to end."""

    predict: Annotated[
        int,
        typer.Option(
            "-n", "--predict", "--n-predict", metavar="N", help="Tokens to generate; -1: open."
        ),
    ] = -1
    stop: Annotated[
        list[str] | None,
        typer.Option(
            "--stop", "-r", "--reverse-prompt", metavar="TEXT", help="End before this text."
        ),
    ] = None
    include_stop: Annotated[
        bool, typer.Option("--include-stop", help="Print the stop text as well.")
    ] = False
    ignore_eos: Annotated[
        bool, typer.Option("--ignore-eos", help="Never let the model end by itself.")
    ] = False
    on_overflow: Annotated[
        str,
        typer.Option(
            "--on-overflow",
            metavar="HOW",
            help="Prompt too long: error, truncate-left, truncate-middle.",
        ),
    ] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffusionOptions:
    """How diffusion models answer."""

    diffusion_steps: Annotated[
        int | None, typer.Option("--diffusion-steps", metavar="N", min=1, help="Default: 128.")
    ] = None
    diffusion_algorithm: Annotated[
        str | None,
        typer.Option(
            "--diffusion-algorithm",
            metavar="NAME",
            help="What becomes tokens: origin, entropy, margin, random, confidence; or its number.",
        ),
    ] = None
    diffusion_block_length: Annotated[
        int | None,
        typer.Option(
            "--diffusion-block-length", metavar="N", min=0, help="Tokens at a time; 0: all."
        ),
    ] = None
    diffusion_eps: Annotated[
        float | None,
        typer.Option("--diffusion-eps", metavar="X", help="End of the schedule. Default: 0.001."),
    ] = None

    def settings(self, model: Any) -> Diffusion:
        from llamapy.app.diffusion import ALGORITHMS, Diffusion, is_diffusion

        given = {k: v for k, v in asdict(self).items() if v is not None}
        if given and not is_diffusion(model):
            flag = next(iter(given)).replace("_", "-")
            log.warn("W10", f"--{flag}: this model is no diffusion model")
        name = given.get("diffusion_algorithm", "confidence")
        number = name.isdecimal() and int(name) < len(ALGORITHMS)
        return Diffusion(
            steps=given.get("diffusion_steps", 128),
            algorithm=ALGORITHMS[int(name)] if number else name,
            block=given.get("diffusion_block_length", 0),
            eps=given.get("diffusion_eps", 1e-3),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowOptions:
    """What to print and where."""

    display_prompt: Annotated[
        bool, typer.Option("--display-prompt/--no-display-prompt", help="Print the prompt first.")
    ] = False
    print_special: Annotated[
        bool, typer.Option("-sp", "--print-special", help="Print control tokens that come out.")
    ] = False
    raw_bytes: Annotated[
        bool, typer.Option("--raw-bytes", help="The bytes of the model, at the end, unchanged.")
    ] = False
    json: options.Json = False
    json_stream: Annotated[
        bool, typer.Option("--json-stream", help="One JSON line per event, the result last.")
    ] = False
    output: options.Output = None
    verbose: options.Verbose = 0
    strict: options.Strict = False


def command(
    source: PromptOptions,
    limit: LimitOptions,
    model: options.ModelOptions,
    context: options.ContextOptions,
    sampling: SamplingOptions,
    diffusion: DiffusionOptions,
    show: ShowOptions,
) -> None:
    """Continue a prompt. The answer goes to stdout, everything else to stderr."""
    options.begin(verbose=show.verbose, json=show.json or show.json_stream, strict=show.strict)
    prompt = _prompt(source)
    start = time.perf_counter()
    with options.open_model(model, threads=context.threads) as opened:
        settings = _settings(source, limit, context, sampling, show, opened)
        settings = replace(settings, diffusion=diffusion.settings(opened))
        load_s = time.perf_counter() - start
        log.info(f"opened {opened.gguf.path} in {load_s * 1e3:.0f} ms")
        with streams.answer_to(show.output) as out, Interrupts() as interrupts:
            _Answer(out, show, prompt, settings, opened, load_s).give(interrupts)
    if interrupts.requested:
        raise KeyboardInterrupt("said")


def _prompt(source: PromptOptions) -> bytes:
    """The bytes to continue. Never waits for a person at a terminal."""
    if source.prompt is not None and source.file is not None:
        raise UsageError("both -p and -f are given: which is the prompt?")
    if source.file is not None:
        text = streams.read_file(source.file)
    elif source.prompt is not None and source.prompt != "-":
        text = source.prompt.encode("utf-8", "surrogateescape")
    elif source.prompt == "-":
        text = streams.read_stdin()
    else:
        text = b"" if streams.is_terminal(sys.stdin) else streams.read_stdin()
        if not text:
            raise UsageError("no prompt: give -p TEXT or -f FILE, or pipe it in")
    if source.escape:
        from llamapy.app.escapes import unescape

        return unescape(text)
    return text


def _settings(
    source: PromptOptions,
    limit: LimitOptions,
    context: options.ContextOptions,
    sampling: SamplingOptions,
    show: ShowOptions,
    model: Any,
) -> Settings:
    from llamapy.app.escapes import unescape
    from llamapy.app.generate import Settings
    from llamapy.app.sampling import sampler_params

    stops = [s.encode("utf-8", "surrogateescape") for s in limit.stop or ()]
    return Settings(
        n_predict=limit.predict,
        **context.settings(),
        on_overflow=limit.on_overflow,
        parse_special=source.special,
        print_special=show.print_special,
        stop=tuple(unescape(s) if source.escape else s for s in stops),
        include_stop=limit.include_stop,
        sampling=sampler_params(
            asdict(sampling), model.gguf.keys, ignore_eos=limit.ignore_eos, escape=source.escape
        ),
    )


class _Answer:
    """Prints one generation in the form that was asked for."""

    def __init__(
        self,
        out: streams.Output,
        show: ShowOptions,
        prompt: bytes,
        settings: Settings,
        model: Any,
        load_s: float,
    ) -> None:
        self.out, self.show, self.prompt = out, show, prompt
        self.settings, self.model, self.load_s = settings, model, load_s
        self.as_text = not (show.json or show.json_stream)
        self.started: Started | None = None

    def give(self, interrupts: Interrupts) -> None:
        from llamapy.app.generate import generate

        with Progress("prompt", "tokens", shown=not log.json) as progress:
            events = generate(
                self.model,
                self.prompt,
                self.settings,
                interrupted=lambda: interrupts.requested,
                progress=progress.stages,
            )
            for event in events:
                self._one(event, progress)

    def _one(self, event: Event, progress: Progress) -> None:
        from llamapy.app import generate as app
        from llamapy.app.diffusion import Step
        from llamapy.app.result import event as as_json

        if self.show.json_stream and not isinstance(event, app.Finished):
            self._line(as_json(event))
        match event:
            case app.Started():
                self.started = event
                if self.show.display_prompt and self.as_text:
                    self.out.write(self.prompt)
                    self._follow(progress, self.prompt.decode("utf-8", "replace"))
                log.info(f"prompt {len(event.ids)} tokens, context {event.n_ctx}")
            case Step():
                progress.stage("answer", "steps")
                progress.update(event.done, event.total)
            case app.Prefill():
                progress.update(event.done, event.total)
            case app.Token():
                progress.clear()
                self._text(event.text)
                self._follow(progress, event.text)
            case app.Finished():
                progress.clear()
                self._end(event)

    def _follow(self, progress: Progress, text: str) -> None:
        """Progress goes on beside the answer where both are on the terminal."""
        printed = self.as_text and not self.show.raw_bytes and self.show.output in (None, "-")
        if printed and streams.is_terminal(sys.stdout):
            progress.after(text)

    def _text(self, text: str) -> None:
        if self.as_text and not self.show.raw_bytes and text:
            self.out.write(text)

    def _end(self, end: Finished) -> None:
        from llamapy.app.identity import model_hash
        from llamapy.app.result import memory, result

        assert self.started is not None
        self._text(end.rest)
        if self.as_text and self.show.raw_bytes:
            self.out.write(end.raw)
        if self.as_text and self.show.output is None and streams.is_terminal(sys.stdout):
            self.out.write("\n")
        if not self.as_text:
            gguf = self.model.gguf
            about = {
                "path": str(gguf.path),
                "architecture": gguf.get_str("general.architecture"),
                "hash": model_hash(gguf),
                "repack": self.model.repacked.facts(),
            }
            body = result(self.started, end, self.settings, about, self.load_s)
            head = {"event": "finished"} if self.show.json_stream else {}
            more = {"memory": memory(self.model, end), "warnings": log.warned}
            self._line({**head, **body, **more})
        self._summary(end)

    def _line(self, value: dict[str, Any]) -> None:
        self.out.write(jsonlib.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")

    def _summary(self, end: Finished) -> None:
        """On stderr: always when the user broke off, else only with -v."""
        from llamapy.app.result import timings

        t = timings(end, self.load_s)
        text = (
            f"{end.reason}: {end.n_prompt} prompt tokens at {t['prompt_per_s'] or 0:.1f}/s,"
            f" {end.n_generated} generated at {t['decode_per_s'] or 0:.1f}/s, seed {end.seed},"
            f" {end.n_threads} threads, {end.isa}, graphs {end.n_built} built"
            f" {end.n_reused} reused"
        )
        (log.note if end.reason == "interrupted" else log.info)(text)
