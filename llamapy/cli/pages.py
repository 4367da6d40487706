"""What a command takes, as its own declaration says it: the page of `--help`, and the one list that
completion and the documentation are made from.

A group of options is a dataclass; the first sentence of its docstring is its heading.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from llamapy.cli.groups import expand

WIDTH = 80
COLUMN = 28  # where an option's meaning begins, unless its names are longer
FILES = ("FILE", "[FILE]", "[IN.jsonl]", "A.json B.json")  # metavars of what is completed by files


@dataclass(frozen=True, slots=True)
class Option:
    """`names` in the order of the declaration, `opposite` the name that switches it off, `value`
    None for a switch. An argument has no names."""

    names: tuple[str, ...]
    opposite: str | None
    value: str | None
    about: str
    default: str | None

    @property
    def spelled(self) -> str:
        names = ", ".join(self.names) + (f" / {self.opposite}" if self.opposite else "")
        return f"{names} {self.value}" if self.value else names

    @property
    def meaning(self) -> str:
        return f"{self.about} [{self.default}]" if self.default else self.about


@dataclass(frozen=True, slots=True)
class Page:
    """A command: what it does, its arguments, and its options under their headings."""

    name: str
    about: str
    arguments: tuple[Option, ...]
    groups: tuple[tuple[str, tuple[Option, ...]], ...]

    @property
    def options(self) -> list[Option]:
        return [option for _, options in self.groups for option in options]


def parser_of(command: Callable[..., Any]) -> Any:
    """The parser that a command's declaration makes."""
    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    names = {"help_option_names": ["-h", "--help"]}
    app.command(context_settings=names)(expand(command))
    return typer.main.get_command(app)


def page_of(name: str, module: str) -> Page:
    """The page of the command in `module`."""
    command = import_module(module).command
    return _page(name, command, parser_of(command))


def _page(name: str, command: Callable[..., Any], parser: Any) -> Page:
    by_field = {p.name: p for p in parser.params}
    headings = expand(command).__groups__  # type: ignore[attr-defined]
    grouped = {field for _, fields in headings for field in fields}
    loose = tuple(n for n, p in by_field.items() if n not in grouped and not _argument(p))
    groups = [
        (heading, tuple(_option(by_field[n]) for n in fields))
        for heading, fields in (*headings, ("Options", loose))
        if fields
    ]
    help_ = Option(("-h", "--help"), None, None, "Show this page.", None)
    if not groups:
        groups = [("Options", ())]
    told = [i for i, (_, options) in enumerate(groups) if any("-v" in o.names for o in options)]
    at = told[0] if told else -1
    groups[at] = (groups[at][0], (*groups[at][1], help_))
    arguments = tuple(_option(p) for p in parser.params if _argument(p))
    return Page(name, (command.__doc__ or "").strip(), arguments, tuple(groups))


def _argument(p: Any) -> bool:
    return bool(p.param_type_name == "argument")


def _option(p: Any) -> Option:
    if _argument(p):
        return Option((), None, p.metavar or p.name.upper(), p.help or "", None)
    value = None if p.is_flag or p.count else p.metavar or p.type.name.upper()
    opposite = next(iter(p.secondary_opts), None)
    return Option(tuple(p.opts), opposite, value, p.help or "", _default(p))


def _default(p: Any) -> str | None:
    """Where the text does not tell it itself."""
    told = "[" in (p.help or "") or "Default" in (p.help or "")
    if told or p.default is None or p.count or isinstance(p.default, list | tuple):
        return None
    if p.is_flag:
        return p.opts[-1].lstrip("-") if p.default and p.secondary_opts else None
    return f"{p.default:g}" if isinstance(p.default, float) else str(p.default) or None


def text(page: Page) -> str:
    """The page as it is shown."""
    given = [a.value if (a.value or "").startswith("[") else f"[{a.value}]" for a in page.arguments]
    lines = [" ".join(["Usage: llamapy", page.name, *(g or "" for g in given), "[OPTIONS]"])]
    for paragraph in page.about.split("\n\n"):
        lines += ["", *textwrap.wrap(" ".join(paragraph.split()), WIDTH)]
    if page.arguments:
        lines += ["", "Arguments:"]
        lines += [line for a in page.arguments for line in _row(a.value or "", a.meaning)]
    for heading, options in page.groups:
        first, more = _heading(heading)
        lines += [
            "",
            f"{first}:",
            *textwrap.wrap(more, WIDTH, initial_indent="  ", subsequent_indent="  "),
        ]
        lines += [line for option in options for line in _row(option.spelled, option.meaning)]
    return "\n".join(lines) + "\n"


def _heading(text: str) -> tuple[str, str]:
    """The first sentence, and what follows it."""
    flat = " ".join(text.split())
    first, dot, more = flat.partition(". ")
    return first.rstrip("."), more


def _row(names: str, meaning: str) -> Iterator[str]:
    """Names, and their meaning beside or below them."""
    indent = " " * COLUMN
    wrapped = textwrap.wrap(meaning, WIDTH, initial_indent=indent, subsequent_indent=indent)
    if len(names) + 4 <= COLUMN and wrapped:
        yield f"  {names}".ljust(COLUMN) + wrapped.pop(0)[COLUMN:]
    else:
        yield f"  {names}"
    yield from wrapped


def pages(rows: Sequence[Any]) -> list[Page]:
    """Of all commands."""
    return [page_of(row.name, row.module) for row in rows]
