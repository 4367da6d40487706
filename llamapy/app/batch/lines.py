"""Lines of a batch: what is asked, and how it differs from the job's settings.

A line is `{"id"?, "prompt", ...}` or OpenAI's `{"custom_id", "body": {"prompt", ...}}`, either with
`messages` in place of a prompt, which the model's own template makes one of. What a line
says and nobody knows is refused: a misspelt parameter would change the answer unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llamapy.app.generate import Settings
from llamapy.base.errors import LlamapyError, UsageError, near_match
from llamapy.sample.params import RANDOM_SEED

# A line's parameters: the setting each stands for, and what it must be.
_COMMON = {
    "temperature": ("temp", float),
    "top_p": ("top_p", float),
    "seed": ("seed", int),
    "presence_penalty": ("presence_penalty", float),
    "frequency_penalty": ("frequency_penalty", float),
}
OURS = _COMMON | {
    "n": ("n_predict", int),
    "temp": ("temp", float),
    "top_k": ("top_k", int),
    "min_p": ("min_p", float),
    "repeat_penalty": ("repeat_penalty", float),
}
OPENAI = _COMMON | {
    "max_tokens": ("n_predict", int),
    "max_completion_tokens": ("n_predict", int),
}
# What OpenAI's lines may say as well, if it asks for nothing else than one plain answer.
_IDLE: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "stream": (False,),
}
_IGNORED = ("model", "user", "metadata")


@dataclass(frozen=True, slots=True)
class Messages:
    """What is rendered by the model's own template: `role` and `content` of each."""

    messages: tuple[dict[str, str], ...]


Prompt = bytes | list[int] | Messages


@dataclass(frozen=True, slots=True)
class Line:
    """A line that is not blank. `key` is where its id stood, and stands in the result; `value` what
    it says, or `error` why that cannot be read. `digest` tells one question from another."""

    number: int  # from 1
    key: str
    id: str | int
    digest: str
    value: Mapping[str, Any]
    error: LlamapyError | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """A line that asks for an answer; `error` is why it cannot be given."""

    number: int
    key: str
    id: str | int
    prompt: Prompt
    settings: Settings
    digest: str
    error: LlamapyError | None = None


def read_items(raw: bytes, settings: Settings) -> list[Item]:
    """Every line that is not blank. UsageError as read_lines; what is wrong with a single line is
    its `error`."""
    return [_item(line, settings) for line in read_lines(raw)]


def read_lines(raw: bytes) -> list[Line]:
    """Every line that is not blank. UsageError for none at all, and for an id that comes twice."""
    lines = list(_lines(raw))
    if not lines:
        raise UsageError("no lines to answer: give a file, or pipe it in")
    seen: dict[str, int] = {}
    for line in lines:
        name = id_text(line.id)
        if name in seen:
            raise UsageError(
                f"lines {seen[name]} and {line.number} have the same id {name} (a line without one "
                "goes by its number)"
            )
        seen[name] = line.number
    return lines


def id_text(id: Any) -> str:
    """An id as text, 1 apart from "1"."""
    return json.dumps(id)


def _lines(raw: bytes) -> Iterator[Line]:
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        digest = hashlib.sha256(line.strip()).hexdigest()[:16]
        try:
            value = _object(line)
        except LlamapyError as e:
            yield Line(number, "id", number, digest, {}, e)
            continue
        key = "custom_id" if "custom_id" in value else "id"
        id = value.get(key)
        if id is None:
            yield Line(number, "id", number, digest, value)
        elif isinstance(id, bool) or not isinstance(id, str | int):
            bad = UsageError(f"{key} must be a text or a whole number")
            yield Line(number, "id", number, digest, {}, bad)
        else:
            yield Line(number, key, id, digest, value)


def _item(line: Line, settings: Settings) -> Item:
    at = line.number, line.key, line.id
    try:
        if line.error is not None:
            raise line.error
        return Item(*at, *_question(line.value, settings), line.digest)
    except LlamapyError as e:
        return Item(*at, b"", settings, line.digest, e)


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as e:
        raise UsageError(f"no JSON: {e}") from e
    if not isinstance(value, dict):
        raise UsageError("a line must be a JSON object")
    return value


def _question(value: Mapping[str, Any], settings: Settings) -> tuple[Prompt, Settings]:
    """The prompt of a line and its settings."""
    openai = "body" in value or "custom_id" in value
    body = value.get("body") if openai else value
    if not isinstance(body, dict):
        raise UsageError("body must be a JSON object")
    if openai:
        known(value, ("custom_id", "method", "url", "body"))
    asked = [name for name in ("prompt", "messages") if name in body]
    if len(asked) != 1:
        raise UsageError(
            f"the line has {'both prompt and' if asked else 'no prompt and no'} messages"
        )
    table = OPENAI if openai else OURS
    rest = {k: v for k, v in body.items() if k not in ("id", *asked) and v is not None}
    if openai:
        rest = {k: v for k, v in rest.items() if not _idle(k, v)}
    known(rest, (*table, "stop"))
    prompt: Prompt
    if asked == ["messages"]:
        prompt = _messages(body["messages"])
    else:
        prompt = text_or_ids(body["prompt"], "a prompt")
    return prompt, _apply(rest, table, settings)


def _messages(value: Any) -> Messages:
    if not isinstance(value, list) or not value:
        raise UsageError("messages must be a list of at least one")
    out = []
    for i, message in enumerate(value, 1):
        if not isinstance(message, dict):
            raise UsageError(f"message {i} must be a JSON object")
        known(message, ("role", "content"))
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise UsageError(f"message {i} must have role and content, both texts")
        out.append({"role": role, "content": content})
    return Messages(tuple(out))


def _idle(name: str, value: Any) -> bool:
    return name in _IGNORED or any(value is x or value == x for x in _IDLE.get(name, ()))


def known(given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """UsageError for a parameter that is none of `names`."""
    for name in given:
        if name not in names:
            raise UsageError(f"unknown parameter {name!r}{near_match(name, names)}")


def text_or_ids(value: Any, what: str) -> bytes | list[int]:
    """A text as bytes, or token ids as they are."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, list) and all(type(i) is int and i >= 0 for i in value):
        return value
    raise UsageError(f"{what} must be a text or a list of token ids")


def _apply(
    given: Mapping[str, Any], table: Mapping[str, tuple[str, type]], settings: Settings
) -> Settings:
    ours: dict[str, Any] = {}
    sampling: dict[str, Any] = {}
    for name, value in given.items():
        if name == "stop":
            ours["stop"] = _stops(value)
            continue
        to, kind = table[name]
        if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
            raise UsageError(f"{name} must be a {'whole ' if kind is int else ''}number")
        if to == "seed" and value == -1:
            value = RANDOM_SEED
        if to == "seed" and value == RANDOM_SEED:
            raise UsageError("a line's seed must be a seed: a random one could not be repeated")
        (ours if to == "n_predict" else sampling)[to] = kind(value)
    return replace(settings, **ours, sampling=replace(settings.sampling, **sampling))


def _stops(value: Any) -> tuple[str | bytes, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(t, str) and t for t in texts):
        raise UsageError("stop must be a text or a list of texts, none of them empty")
    return tuple(t.encode("utf-8", "surrogatepass") for t in texts)
