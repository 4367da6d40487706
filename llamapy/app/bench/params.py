"""Lists of values as flags give them, and the tests that their product makes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llamapy.base.errors import UsageError

_RANGE = re.compile(r"(\d+)(?:-(\d+)(?:([+*])(\d+))?)?", re.ASCII)
MAX_VALUES = 10_000


def numbers(texts: Iterable[str], flag: str, least: int = 0) -> list[int]:
    """Values of a flag: "1,2", "1-4" (each), "0-8+4" (steps), "1-8*2" (factors), repeated or not.
    UsageError for anything else, and for a value below `least`."""
    out: list[int] = []
    for part in itertools.chain.from_iterable(text.split(",") for text in texts):
        out += _range(part.strip(), flag)
    for value in out:
        if value < least:
            raise UsageError(f"{flag} {value}: must be at least {least}")
    return out


def _range(text: str, flag: str) -> list[int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{flag} '{text}': expected a number, or a range as in 1-4, 0-512+128 or 1-16*2"
        )
    first = int(found[1])
    last = first if found[2] is None else int(found[2])
    by = 1 if found[4] is None else int(found[4])
    factor = found[3] == "*"
    if last < first or (factor and (by < 2 or first < 1)) or by < 1:
        raise UsageError(f"{flag} '{text}': the range does not grow from {first} to {last}")
    out = [first]
    while (value := out[-1] * by if factor else out[-1] + by) <= last:
        out.append(value)
        if len(out) > MAX_VALUES:
            raise UsageError(f"{flag} '{text}': more than {MAX_VALUES} values")
    return out


def names(texts: Iterable[str], flag: str, allowed: Sequence[str]) -> list[str]:
    """Values of a flag that takes words: "f16,q8_0", repeated or not."""
    out = [part.strip() for text in texts for part in text.split(",")]
    for name in out:
        if name not in allowed:
            raise UsageError(f"{flag} '{name}': must be one of {', '.join(allowed)}")
    return out


def pairs(texts: Iterable[str], flag: str) -> list[tuple[int, int]]:
    """Prompt and generation of combined tests: "512,128" once per test."""
    out = []
    for text in texts:
        both = numbers([text], flag, 1)
        if len(both) != 2:
            raise UsageError(f"{flag} '{text}': expected two numbers, as in 512,128")
        out.append((both[0], both[1]))
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """Every list of values that the tests are the product of. Sizes in tokens."""

    n_prompt: Sequence[int] = (512,)
    n_gen: Sequence[int] = (128,)
    pg: Sequence[tuple[int, int]] = ()
    n_depth: Sequence[int] = (0,)
    n_batch: Sequence[int] = (2048,)
    n_ubatch: Sequence[int] = (512,)
    type_k: Sequence[str] = ("f16",)
    type_v: Sequence[str] = ("f16",)
    n_threads: Sequence[int] = (1,)
    npp: Sequence[int] = (128,)
    ntg: Sequence[int] = (128,)
    npl: Sequence[int] = (1,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What a context is opened with, but for its size."""

    n_batch: int = 2048
    n_ubatch: int = 512
    type_k: str = "f16"
    type_v: str = "f16"
    n_threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(Setting):
    """One test. Prompt alone (pp), generation alone (tg), or one after the other."""

    n_prompt: int
    n_gen: int
    n_depth: int = 0

    @property
    def name(self) -> str:
        parts = [f"pp{self.n_prompt}"] if self.n_prompt else []
        parts += [f"tg{self.n_gen}"] if self.n_gen else []
        return "+".join(parts) + (f" @ d{self.n_depth}" if self.n_depth else "")

    @property
    def n_ctx(self) -> int:
        return self.n_prompt + self.n_gen + self.n_depth


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchedCase(Setting):
    """`n_parallel` prompts of `n_prompt` tokens, or one that is `shared`, then `n_gen` tokens of
    every sequence, one of each per step; `separate`: all of one, then of the next."""

    n_prompt: int
    n_gen: int
    n_parallel: int
    shared: bool = False
    separate: bool = False

    @property
    def name(self) -> str:
        how = " shared" * self.shared + " separate" * self.separate
        return f"pp{self.n_prompt}+tg{self.n_gen} x{self.n_parallel}{how}"

    @property
    def n_ctx(self) -> int:
        """Tokens in memory at the end."""
        prompts = self.n_prompt * (1 if self.shared else self.n_parallel)
        return prompts + self.n_gen * self.n_parallel


def _settings(lists: Lists) -> list[dict[str, Any]]:
    names = ("n_batch", "n_ubatch", "type_k", "type_v", "n_threads")
    values = itertools.product(*(getattr(lists, name) for name in names))
    return [dict(zip(names, row, strict=True)) for row in values]


def cases(lists: Lists) -> list[Case]:
    """The product, prompts before generations before pairs for each setting of the rest. UsageError
    when nothing is left to run."""
    tests = [(n, 0) for n in lists.n_prompt if n] + [(0, n) for n in lists.n_gen if n]
    tests += lists.pg
    if not tests:
        raise UsageError("nothing to run: -p 0, -n 0 and no -pg")
    return [
        Case(n_prompt=p, n_gen=n, n_depth=depth, **rest)
        for depth in lists.n_depth
        for rest in _settings(lists)
        for p, n in tests
    ]


def batched_cases(lists: Lists, *, shared: bool, separate: bool) -> list[BatchedCase]:
    """The product, numbers of sequences running fastest as llama-batched-bench has it."""
    tests = itertools.product(lists.npp, lists.ntg, lists.npl)
    cases = [BatchedCase(n_prompt=p, n_gen=n, n_parallel=many) for p, n, many in tests]
    return [
        replace(case, shared=shared, separate=separate, **rest)
        for rest in _settings(lists)
        for case in cases
    ]


def whole_cases(lists: Lists) -> list[Case]:
    """Whole runs: every prompt with every generation, or the pairs. UsageError for an empty
    prompt or generation."""
    tests = list(lists.pg) or list(itertools.product(lists.n_prompt, lists.n_gen))
    if not all(p and n for p, n in tests):
        raise UsageError("--end-to-end: a whole run has a prompt and generates: -p and -n from 1")
    return [Case(n_prompt=p, n_gen=n, **rest) for rest in _settings(lists) for p, n in tests]
