"""Sampler parameters from three places: the user's flags, else the file's wishes, else defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llamapy.app.escapes import unescape
from llamapy.base.errors import UsageError
from llamapy.sample.params import (
    RANDOM_SEED,
    SamplerParams,
    parse_logit_bias,
    parse_sampler_seq,
    parse_samplers,
    recommended,
)


def sampler_params(
    given: Mapping[str, Any], keys: Mapping[str, Any], *, ignore_eos: bool, escape: bool
) -> SamplerParams:
    """`given`: values of flags by parameter name, None where not given; `keys`: those of the file.

    Texts of flags are read here: `samplers` and `sampler_seq` to a chain, `logit_bias` to pairs,
    breakers with escapes if asked for. A seed of -1 asks for a random one.
    """
    values = {name: value for name, value in given.items() if value is not None}
    if "samplers" in values and "sampler_seq" in values:
        raise UsageError("both --samplers and --sampler-seq are given: which is the chain?")
    if "samplers" in values:
        values["samplers"] = parse_samplers(values["samplers"])
    if "sampler_seq" in values:
        values["samplers"] = parse_sampler_seq(values.pop("sampler_seq"))
    if "logit_bias" in values:
        values["logit_bias"] = tuple(parse_logit_bias(text) for text in values["logit_bias"])
    if "dry_sequence_breakers" in values:
        texts = values["dry_sequence_breakers"]
        values["dry_sequence_breakers"] = _breakers(texts, escape)
    if values.get("seed") == -1:
        values["seed"] = RANDOM_SEED
    return SamplerParams(**{**recommended(keys), **values, "ignore_eos": ignore_eos})


def _breakers(texts: list[str], escape: bool) -> tuple[str, ...]:
    """The first use clears the defaults, and 'none' whatever came before it."""
    out: list[str] = []
    for text in texts:
        if text == "none":
            out.clear()
        else:
            raw = text.encode("utf-8", "surrogateescape")
            out.append((unescape(raw) if escape else raw).decode("utf-8", "replace"))
    return tuple(out)
