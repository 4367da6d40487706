"""The sampler's flags, with llama-cli's names and defaults; None means not given on the command
line, so that a file's own `general.sampling.*` may decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer


def _flag(*names: str, metavar: str, help: str) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = typer.Option(
        *names, metavar=metavar, help=help, rich_help_panel="Sampling"
    )
    return made


Float = float | None
Int = int | None
Text = str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingOptions:
    """How tokens are chosen. What is not given is as the file says, else as stated here."""

    samplers: Annotated[
        Text, _flag("--samplers", metavar="A;B", help="Chain of samplers, in order.")
    ] = None
    sampler_seq: Annotated[
        Text,
        _flag("--sampler-seq", "--sampling-seq", metavar="CHARS", help="The chain by letters."),
    ] = None
    seed: Annotated[
        Int, _flag("-s", "--seed", metavar="N", help="Seed; -1: a random one, which is reported.")
    ] = None
    temp: Annotated[
        Float, _flag("--temp", "--temperature", metavar="T", help="0: greedy. Default 0.8.")
    ] = None
    dynatemp_range: Annotated[
        Float, _flag("--dynatemp-range", metavar="R", help="Temperature by entropy, T-R to T+R.")
    ] = None
    dynatemp_exp: Annotated[
        Float, _flag("--dynatemp-exp", metavar="E", help="Its exponent. Default 1.")
    ] = None
    top_k: Annotated[
        Int, _flag("--top-k", metavar="K", help="The K most likely; 0: all. Default 40.")
    ] = None
    top_p: Annotated[
        Float, _flag("--top-p", metavar="P", help="The likeliest that make up P. Default 0.95.")
    ] = None
    min_p: Annotated[
        Float, _flag("--min-p", metavar="P", help="At least P times the likeliest. Default 0.05.")
    ] = None
    top_n_sigma: Annotated[
        Float,
        _flag("--top-n-sigma", "--top-nsigma", metavar="N", help="Logits within N deviations."),
    ] = None
    typical: Annotated[
        Float, _flag("--typical-p", "--typical", metavar="P", help="Locally typical; 1: off.")
    ] = None
    xtc_probability: Annotated[
        Float, _flag("--xtc-probability", metavar="P", help="Chance to leave out top choices.")
    ] = None
    xtc_threshold: Annotated[
        Float, _flag("--xtc-threshold", metavar="P", help="What counts as one. Default 0.1.")
    ] = None
    repeat_last_n: Annotated[
        Int, _flag("--repeat-last-n", metavar="N", help="Window of the penalties. Default 64.")
    ] = None
    repeat_penalty: Annotated[
        Float, _flag("--repeat-penalty", metavar="X", help="Repeated tokens; 1: off.")
    ] = None
    presence_penalty: Annotated[
        Float, _flag("--presence-penalty", metavar="X", help="Tokens that occurred; 0: off.")
    ] = None
    frequency_penalty: Annotated[
        Float, _flag("--frequency-penalty", metavar="X", help="By how often; 0: off.")
    ] = None
    dry_multiplier: Annotated[
        Float, _flag("--dry-multiplier", metavar="X", help="Penalty of repeated runs; 0: off.")
    ] = None
    dry_base: Annotated[Float, _flag("--dry-base", metavar="X", help="Its base. Default 1.75.")] = (
        None
    )
    dry_allowed_length: Annotated[
        Int, _flag("--dry-allowed-length", metavar="N", help="Runs that are free. Default 2.")
    ] = None
    dry_penalty_last_n: Annotated[
        Int, _flag("--dry-penalty-last-n", metavar="N", help="Its window. Default 64.")
    ] = None
    dry_sequence_breakers: Annotated[
        list[str] | None,
        _flag("--dry-sequence-breaker", metavar="TEXT", help="Ends a run; 'none' for none."),
    ] = None
    mirostat: Annotated[
        Int, _flag("--mirostat", metavar="V", help="Mirostat 1 or 2 instead of the chain; 0: off.")
    ] = None
    mirostat_lr: Annotated[
        Float, _flag("--mirostat-lr", metavar="X", help="Its learning rate. Default 0.1.")
    ] = None
    mirostat_ent: Annotated[
        Float, _flag("--mirostat-ent", metavar="X", help="Its target entropy. Default 5.")
    ] = None
    logit_bias: Annotated[
        list[str] | None,
        _flag("-l", "--logit-bias", metavar="ID+X", help="Add X to a token's logit: 15043+1, 5-2."),
    ] = None
