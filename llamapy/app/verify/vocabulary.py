"""Whether the tables of a vocabulary agree with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from llamapy.loader.values import NumberArray, StringArray
from llamapy.tokenize.roles import NONE

PREFIX = "tokenizer.ggml."
LISTS = ("scores", "token_type")


def check_vocabulary(keys: Mapping[str, Any]) -> Iterator[str]:
    """What does not: lists of other lengths, ids of no token."""
    tokens = keys.get(f"{PREFIX}tokens")
    if not isinstance(tokens, StringArray):
        return
    n = len(tokens)
    for name in LISTS:
        values = keys.get(PREFIX + name)
        if isinstance(values, NumberArray) and len(values) != n:
            yield f"key {PREFIX}{name}: expected {n} values, one per token, found {len(values)}"
    for name, value in keys.items():
        number = isinstance(value, int) and not isinstance(value, bool)
        is_id = number and name.startswith(PREFIX) and name.endswith("_token_id")
        if is_id and value not in NONE and not 0 <= value < n:
            yield f"key {name}: expected a token from 0 to {n - 1}, found {value}"
