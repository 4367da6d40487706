"""Flags from the environment: one row each, read through here so that a bad value is never ignored.

A variable that is unset or empty has its default. Another value that the row does not allow is a
UsageError naming the variable, the value and what is allowed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from llamapy.base.errors import UsageError, near_match


@dataclass(frozen=True, slots=True)
class Flag:
    """`kind` is 'path' (any text), 'switch' (0 or 1), 'count' (whole, from 1) or 'choice'."""

    name: str
    kind: str
    default: str  # as shown to the user
    meaning: str
    choices: tuple[str, ...] = ()


FLAGS: tuple[Flag, ...] = (
    Flag(
        "LLAMAPY_ISA",
        "choice",
        "the best this CPU has",
        "instruction set of the kernels: may lower, never raise",
        ("scalar", "avx2", "avxvnni", "avx512", "avx512vnni", "neon", "neondot", "neoni8mm"),
    ),
    Flag("LLAMAPY_LIB", "path", "the one in the package", "file of the native library"),
    Flag("LLAMAPY_CACHE", "path", "~/.cache/llamapy", "folder of fetched models"),
    Flag("LLAMAPY_MODELS", "path", "models in the cache folder", "where models are looked up"),
    Flag("LLAMAPY_THREADS", "count", "physical cores allowed", "threads when no flag says"),
    Flag(
        "LLAMAPY_REPACK",
        "choice",
        "auto",
        "interleaving of weights when no flag says",
        ("auto", "on", "off"),
    ),
    Flag("LLAMAPY_VERIFY", "switch", "0", "check every plan for overlapping memory"),
    Flag("LLAMAPY_STRICT_REUSE", "switch", "0", "an unforeseen rebuild of a graph is an error"),
)
_BY_NAME = {f.name: f for f in FLAGS}


def _value(name: str, kind: str) -> str | None:
    assert _BY_NAME[name].kind == kind, (name, kind)
    return os.environ.get(name) or None


def path(name: str) -> str | None:
    """The text of a 'path' flag, None when unset."""
    return _value(name, "path")


def choice(name: str) -> str | None:
    """One of the flag's choices, None when unset. UsageError for anything else."""
    got = _value(name, "choice")
    allowed = _BY_NAME[name].choices
    if got is not None and got not in allowed:
        hint = near_match(got, allowed)
        raise UsageError(f"{name}={got}: not one of {', '.join(allowed)}{hint}")
    return got


def switch(name: str) -> bool:
    """Whether a 'switch' flag is on. UsageError unless 0, 1 or unset."""
    got = _value(name, "switch")
    if got not in (None, "0", "1"):
        raise UsageError(f"{name}={got}: must be 0 or 1")
    return got == "1"


def count(name: str) -> int | None:
    """The number of a 'count' flag, None when unset. UsageError unless a whole number from 1."""
    got = _value(name, "count")
    if got is None:
        return None
    if not (got.isascii() and got.isdigit() and int(got) >= 1):
        raise UsageError(f"{name}={got}: must be a whole number from 1")
    return int(got)
