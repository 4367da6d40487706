"""A model's own chat template: Jinja2 in its sandbox, with limits on steps and output.

What templates may call besides Jinja2's own is what Hugging Face's `apply_chat_template` has:
`raise_exception`, `strftime_now` and a `tojson` that leaves letters as they are. The time is fixed,
so that the same messages are the same text on any day.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from llamapy.base.errors import FileError, UsageError

Message = Mapping[str, str]  # role and content

NOW = datetime(2024, 7, 26)  # the day that Llama 3's template falls back to
MOST_STEPS = 1_000_000  # lines of the template carried out
MOST_CHARS = 16 << 20  # of the text, and of what one operator may make


class _Limit(Exception):
    """A template went on for too long."""


class _Refused(Exception):
    """A template called raise_exception."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Products and powers are looked at before they are made: 'x' * 10**9 is a lot of memory."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "**" and not (numbers and abs(left) <= 1 << 32 and abs(right) <= 64):
            raise _Limit
        if operator == "*" and not numbers:
            n = max((x for x in (left, right) if isinstance(x, int)), default=0)
            size = max((len(x) for x in (left, right) if hasattr(x, "__len__")), default=0)
            if n * size > MOST_CHARS:
                raise _Limit
        return super().call_binop(context, operator, left, right)


class Template:
    """`bos` and `eos` are the texts of those tokens. FileError for what is no template."""

    def __init__(self, source: str, *, bos: str = "", eos: str = "") -> None:
        env = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        env.filters["tojson"] = _tojson
        env.globals |= {"raise_exception": _raise, "strftime_now": NOW.strftime}
        self._given = {"bos_token": bos, "eos_token": eos}
        try:
            self._template = env.from_string(source)
        except (jinja2.TemplateError, RecursionError, MemoryError) as e:
            line = f", line {e.lineno}" if isinstance(e, jinja2.TemplateSyntaxError) else ""
            raise FileError(f"the chat template cannot be read{line}: {_words(e)}") from e

    def render(self, messages: Sequence[Message]) -> str:
        """The text that the assistant is to go on from. UsageError where the template refuses these
        messages, FileError where it fails, or does what no template should."""
        given = {**self._given, "messages": [dict(m) for m in messages]}
        try:
            with _counted_steps():
                return _joined(self._template.generate(**given, add_generation_prompt=True))
        except _Refused as e:
            raise UsageError(f"the chat template refuses these messages: {_words(e)}") from e
        except _Limit as e:
            raise FileError("the chat template goes beyond all bounds") from e
        except SecurityError as e:
            raise FileError(f"the chat template does what is not allowed: {_words(e)}") from e
        except Exception as e:  # it may raise whatever Python can
            raise FileError(f"the chat template fails: {_words(e)}") from e


def _joined(pieces: Iterator[str]) -> str:
    out, n = [], 0
    for piece in pieces:
        n += len(piece)
        if n > MOST_CHARS:
            raise _Limit
        out.append(piece)
    return "".join(out)


@contextmanager
def _counted_steps() -> Iterator[None]:
    """Inside, lines of templates are counted as a debugger would see them."""
    left = MOST_STEPS

    def step(frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise _Limit
        return step

    def enter(frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        return step if frame.f_code.co_filename == "<template>" else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _raise(message: object) -> str:
    raise _Refused(message)


def _tojson(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _words(e: BaseException) -> str:
    """What went wrong, in one line."""
    return " ".join(str(e).split()) or type(e).__name__
