"""Spellings of flags, made plain before the parser sees them.

Users type what they know from llama-cli: `-ngl 10`, `--n_gpu_layers 10`, `-ngl=10`, `--special on`.
Driven by the options a command declares, this rewrites names only; a value is never looked at, with
one exception: `on` or `off` right after a switch that has an opposite.

A flag that is not declared stops here, by its name and the nearest one: left to the parser,
`-ngx 5` would be read as `-n gx`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llamapy.base.errors import UsageError, near_match

NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Flag:
    """A declared option: its names, whether it takes a value, its opposite (`--no-x`) if any."""

    names: tuple[str, ...]
    takes_value: bool
    opposite: str | None = None


def normalise(argv: Sequence[str], flags: Iterable[Flag], *, positionals: bool) -> list[str]:
    """`argv` with every flag in a declared spelling and its value, if any, as the next item.

    Raises UsageError for an undeclared flag and for a missing value.
    """
    by_name = {name: flag for flag in flags for name in flag.names}
    by_name |= {f.opposite: Flag((f.opposite,), False) for f in by_name.values() if f.opposite}
    out: list[str] = []
    rest = list(argv)
    while rest:
        item = rest.pop(0)
        if item == "--":
            return [*out, item, *rest]
        if not item.startswith("-") or item == "-" or NUMBER.fullmatch(item):
            out.append(item)
            continue
        name, value = _split(item, by_name)
        flag = by_name[name]
        if flag.takes_value:
            if value is None and not rest:
                raise UsageError(f"{name} needs a value")
            out += [name, rest.pop(0) if value is None else value]
        elif value is not None:
            raise UsageError(f"{name} takes no value, got '{value}'")
        elif flag.opposite and not positionals and rest and rest[0] in ("on", "off"):
            out.append(name if rest.pop(0) == "on" else flag.opposite)
        else:
            out.append(name)
            rest = _rest_of_cluster(item, name) + rest
    return out


def _split(item: str, by_name: dict[str, Flag]) -> tuple[str, str | None]:
    """The declared name at the start of `item`, and the value attached to it if there is one."""
    head, eq, value = item.partition("=")
    name = head if not head.startswith("--") else head.replace("_", "-")
    if name in by_name:
        return name, value if eq else None
    short = item[:2]
    if not item.startswith("--") and short in by_name:
        if by_name[short].takes_value and NUMBER.fullmatch(item[2:]):
            return short, item[2:]
        if all(f"-{c}" in by_name and not by_name[f"-{c}"].takes_value for c in item[1:]):
            return short, None
    raise UsageError(f"no such option: {head}{near_match(name, by_name)}")


def _rest_of_cluster(item: str, name: str) -> list[str]:
    """`-vv` is `-v -v`."""
    inside = len(name) == 2 and not item.startswith("--") and len(item) > 2
    return [f"-{item[2:]}"] if inside else []
