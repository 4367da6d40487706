"""Messages to ids: the template's own words may be control tokens, those of the messages not."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from llamapy.base.errors import UsageError
from llamapy.chat.template import Message, Template

KEY = "tokenizer.chat_template"


def template_of(keys: Mapping[str, Any], tokenizer: Any) -> Template:
    """The template that a file brings. UsageError where it brings none."""
    source = keys.get(KEY)
    if not isinstance(source, str) or not source:
        raise UsageError("the model has no chat template: give a prompt in place of messages")
    return _template(source, _text(tokenizer, "bos"), _text(tokenizer, "eos"))


@functools.lru_cache(4)
def _template(source: str, bos: str, eos: str) -> Template:
    """Once for all lines of a job."""
    return Template(source, bos=bos, eos=eos)


def _text(tokenizer: Any, role: str) -> str:
    id = getattr(tokenizer, role, None)
    if id is None:
        return ""
    piece: bytes = tokenizer.piece(id, special=True)
    return piece.decode("utf-8", "replace")


def chat_ids(tokenizer: Any, template: Template, messages: Sequence[Message]) -> list[int]:
    """Ids of the rendered messages, with one BOS where the file or the template wants it.
    UsageError where a message holds the text of a control token and the template says it in other
    words, so that the two cannot be told apart."""
    text = template.render(messages)
    parts = [(text, True)]
    if any(tokenizer.specials_in(m["content"]) for m in messages):
        parts = _apart(template, messages, text)
    bos = _text(tokenizer, "bos")
    ids: list[int] = []
    for i, (part, special) in enumerate(parts):
        begin = not i and not (bos and part.startswith(bos))
        ids += tokenizer.encode(part, add_special=begin, parse_special=special)
    return ids


def _apart(template: Template, messages: Sequence[Message], text: str) -> list[tuple[str, bool]]:
    """The template's words (True) and the messages', by turns; together they are `text`."""
    marks = [_mark(i, text) for i in range(len(messages))]
    scaffold = template.render(
        [{**m, "content": mark} for m, mark in zip(messages, marks, strict=True)]
    )
    pieces = re.split("(" + "|".join(map(re.escape, marks)) + ")", scaffold)
    said = {mark: m["content"] for mark, m in zip(marks, messages, strict=True)}
    for change in (str, str.strip):  # as they are, or trimmed, which many templates do
        parts = [(change(said[p]), False) if p in said else (p, True) for p in pieces]
        if "".join(part for part, _ in parts) == text:
            return [(part, special) for part, special in parts if part]
    raise UsageError(
        "a message holds the text of a control token, and the chat template changes what messages "
        "say: the two cannot be told apart"
    )


def _mark(i: int, text: str) -> str:
    """What stands for message i: nothing that occurs in the text."""
    mark = f"\ue000{i}\ue001"
    while mark in text:
        mark = f"\ue000{mark}\ue001"
    return mark
