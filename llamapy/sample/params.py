"""The sampler's parameters under llama-cli's names and with its defaults, and their spellings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llamapy.base.errors import UsageError, near_match

RANDOM_SEED = 0xFFFFFFFF  # asks for a seed from the system

# Name in a chain, its letter in --sampler-seq, other names it goes by.
STEPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "penalties": ("e", ()),
    "dry": ("d", ()),
    "top_n_sigma": ("s", ("top-n-sigma", "topnsigma")),
    "top_k": ("k", ("top-k", "topk")),
    "typ_p": ("y", ("typ-p", "typp", "typical", "typical_p", "typical-p", "typ")),
    "top_p": ("p", ("top-p", "topp", "nucleus")),
    "min_p": ("m", ("min-p", "minp")),
    "xtc": ("x", ()),
    "temperature": ("t", ("temp",)),
}
DEFAULT_CHAIN = tuple(STEPS)


@dataclass(frozen=True, slots=True)
class SamplerParams:
    """Raises UsageError, naming flag and range, for a value that means nothing.

    `temp <= 0` is greedy. `top_k <= 0`, `top_p >= 1`, `min_p <= 0`, `typical >= 1`, `top_n_sigma <=
    0`, `xtc_probability <= 0`, `xtc_threshold > 0.5` and `dry_multiplier == 0` switch a step off.
    `min_keep` candidates survive each filter. `logit_bias`: (id, bias) pairs, added before anything
    else.
    """

    samplers: tuple[str, ...] = DEFAULT_CHAIN
    seed: int = RANDOM_SEED
    temp: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exp: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 64
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_lr: float = 0.1
    mirostat_ent: float = 5.0
    ignore_eos: bool = False
    logit_bias: tuple[tuple[int, float], ...] = ()
    min_keep: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not (low <= value <= high and math.isfinite(value)):
                raise UsageError(f"{flag(name)} {value}: must be {_words(low, high)}")
        if self.repeat_penalty == 0:
            raise UsageError("--repeat-penalty 0: must be above 0 (1 is off)")
        if self.mirostat and self.mirostat_lr == 0:
            raise UsageError("--mirostat-lr 0: must be above 0")
        for step in self.samplers:
            if step not in STEPS:
                raise UsageError(f"--samplers: unknown '{step}'{near_match(step, STEPS)}")
        for id, bias in self.logit_bias:
            if id < 0 or math.isnan(bias) or bias == math.inf:
                raise UsageError(f"--logit-bias {id}{bias:+}: needs an id and a number")

    @property
    def greedy(self) -> bool:
        return self.temp <= 0


_INF = math.inf
_RANGES: dict[str, tuple[float, float]] = {
    "seed": (0, 2**64 - 1),
    "temp": (-_INF, _INF),
    "dynatemp_range": (0, _INF),
    "dynatemp_exp": (0, _INF),
    "top_k": (-(2**31), 2**31 - 1),
    "top_p": (0, _INF),
    "min_p": (-_INF, 1),
    "typical": (0, _INF),
    "top_n_sigma": (-_INF, _INF),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "repeat_last_n": (0, 2**31 - 1),
    "repeat_penalty": (0, _INF),
    "presence_penalty": (-_INF, _INF),
    "frequency_penalty": (-_INF, _INF),
    "dry_multiplier": (0, _INF),
    "dry_base": (0, _INF),
    "dry_allowed_length": (0, 2**31 - 1),
    "dry_penalty_last_n": (0, 2**31 - 1),
    "mirostat": (0, 2),
    "mirostat_lr": (0, _INF),
    "mirostat_ent": (0, _INF),
    "min_keep": (0, 2**31 - 1),
}


def flag(name: str) -> str:
    """`top_k` as the user writes it."""
    return "--" + name.replace("_", "-")


def _words(low: float, high: float) -> str:
    if low == -_INF and high == _INF:
        return "a finite number"
    if high == _INF:
        return f"a finite number, {low:g} or more"
    if low == -_INF:
        return f"a number up to {high:g}"
    return f"between {low} and {high}"


def parse_samplers(text: str) -> tuple[str, ...]:
    """`"top_k;temp"` as names. Raises UsageError for a name that is none; llama-cli skips those."""
    names = {other: name for name, (_, others) in STEPS.items() for other in (name, *others)}
    out = []
    for word in filter(None, (w.strip().lower() for w in text.split(";"))):
        if word not in names:
            raise UsageError(f"--samplers: unknown '{word}'{near_match(word, names)}")
        out.append(names[word])
    return tuple(out)


def parse_sampler_seq(text: str) -> tuple[str, ...]:
    """`"kpmt"` as names."""
    letters = {letter: name for name, (letter, _) in STEPS.items()}
    unknown = [c for c in text if c not in letters]
    if unknown:
        raise UsageError(f"--sampler-seq: unknown '{unknown[0]}' (have: {''.join(letters)})")
    return tuple(letters[c] for c in text)


def parse_logit_bias(text: str) -> tuple[int, float]:
    """`"15043+1"` or `"15043-inf"` as id and bias."""
    m = re.fullmatch(r"(\d+)([+-].+)", text.strip())
    try:
        if m:
            return int(m[1]), float(m[2])
    except ValueError:
        pass
    raise UsageError(f"--logit-bias {text}: must be ID+BIAS or ID-BIAS, as in 15043-inf")


_DEFAULTS = SamplerParams()

# Keys by which a file recommends values, and the parameters they stand for.
FILE_KEYS: dict[str, str] = {
    "sequence": "samplers",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "temp": "temp",
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_ent",
    "mirostat_eta": "mirostat_lr",
}


def recommended(keys: Mapping[str, Any]) -> dict[str, Any]:
    """What the file's `general.sampling.*` keys ask for, as arguments of SamplerParams."""
    out: dict[str, Any] = {}
    for key, name in FILE_KEYS.items():
        value = keys.get(f"general.sampling.{key}")
        if value is None:
            continue
        kind = type(getattr(_DEFAULTS, name))
        out[name] = parse_samplers(str(value)) if name == "samplers" else kind(value)
    return out
