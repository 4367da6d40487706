"""What a file's vocabulary is, without making it. No numpy in here."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from llamapy.loader.values import NumberArray, StringArray
from llamapy.loader.words import text
from llamapy.tokenize import roles

PREFIX = "tokenizer.ggml."
TYPES = {
    roles.NORMAL: "normal",
    roles.UNKNOWN: "unknown",
    roles.CONTROL: "control",
    roles.USER_DEFINED: "user_defined",
    roles.UNUSED: "unused",
    roles.BYTE: "byte",
}


def token_types(keys: Mapping[str, Any]) -> dict[str, int] | None:
    """How many tokens of each type; None when the file does not say."""
    types = keys.get(f"{PREFIX}token_type")
    if not isinstance(types, NumberArray):
        return None
    counts = _low_bytes(types) or Counter(types.view.tolist())
    return {TYPES.get(t, str(t)): n for t, n in sorted(counts.items()) if n}


def _low_bytes(types: NumberArray) -> Counter[int] | None:
    """The same count by the lowest bytes, a hundred times as fast; None where other bytes, or
    types that we do not know, count."""
    raw, size = bytes(types.view.cast("B")), types.view.itemsize
    if any(raw[i::size].strip(b"\0") for i in range(1, size)):
        return None
    low = raw[::size]
    counts = Counter({t: low.count(t) for t in TYPES})
    return counts if counts.total() == len(types) else None


def end_tokens(keys: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Ids that end a generation, with their texts, as the tokenizer finds them."""
    tokens, types = keys.get(f"{PREFIX}tokens"), keys.get(f"{PREFIX}token_type")
    if not isinstance(tokens, StringArray):
        return []
    kind = keys.get(f"{PREFIX}model")
    n = len(tokens)
    known = types if isinstance(types, NumberArray) and len(types) == n else None
    defaults = roles.BY_CONVENTION.get(kind, {}) if isinstance(kind, str) else {}
    found, _ = roles.roles_of(keys, lambda key: _int(keys[key]), n, defaults)
    marks = ((i, tokens[i], known[i] if known else roles.NORMAL) for i in sorted(_marks(tokens)))
    return [{"id": i, "text": text(tokens[i])} for i in sorted(roles.end_ids(marks, found))]


def _int(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _marks(tokens: StringArray) -> Iterator[int]:
    """Ids of tokens that are one of the known end marks, found by their bytes as GGUF writes them:
    length, then text."""
    raw, starts = bytes(tokens.raw), tokens.offsets
    for mark in roles.END_TEXTS:
        at = -1
        while (at := raw.find(len(mark).to_bytes(8, "little") + mark, at + 1)) >= 0:
            i = _place(starts, at + 8)
            if i < len(tokens):
                yield i


def _place(starts: array[int], at: int) -> int:
    """Which string starts there; beyond all when none does."""
    i = bisect_left(starts, at)
    return i if i < len(starts) and starts[i] == at else len(starts)
