"""The vocabulary as the file tells it: pieces, scores, types, and the tokens with a role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llamapy.base.errors import FileError
from llamapy.tokenize.keys import Bytes, Keys, Strings, numbers, strings
from llamapy.tokenize.roles import BYTE as BYTE
from llamapy.tokenize.roles import CONTROL as CONTROL
from llamapy.tokenize.roles import END_TEXTS, end_ids, roles_of
from llamapy.tokenize.roles import NORMAL as NORMAL
from llamapy.tokenize.roles import UNKNOWN as UNKNOWN
from llamapy.tokenize.roles import UNUSED as UNUSED
from llamapy.tokenize.roles import USER_DEFINED as USER_DEFINED
from llamapy.tokenize.specials import Specials

_FIRST = np.zeros(256, np.bool_)
_FIRST[[t[0] for t in END_TEXTS]] = True


@dataclass(frozen=True, slots=True)
class Vocab:
    """`n` tokens. `type` is uint8 `[n]`, `score` float32 `[n]` (zeros where the file has none)."""

    tokens: Strings
    type: Bytes
    score: NDArray[np.float32]
    roles: dict[str, int]
    eog: frozenset[int]
    suppress: tuple[int, ...] = ()
    problems: tuple[str, ...] = ()
    byte_ids: dict[int, int] = field(default_factory=dict)  # of tokens typed BYTE: value to id

    def __len__(self) -> int:
        return len(self.tokens)

    def ids_of(self, *types: int) -> list[int]:
        return [int(i) for i in np.flatnonzero(np.isin(self.type, types))]

    def text(self, id: int) -> str:
        """The piece as the file has it; bytes that are no UTF-8 are escaped (see text.py)."""
        return self.tokens[id].decode("utf-8", "surrogateescape")

    def is_control(self, id: int) -> bool:
        """Control and unknown tokens, and whatever ends a generation: printed only on request."""
        return bool(self.type[id] in (CONTROL, UNKNOWN)) or id in self.eog

    def specials(self, *, control: bool, user: bool, rstrip: Iterable[int] = ()) -> Specials:
        """Finder of the special tokens: user-defined ones, control ones, or both."""
        ids = set(self.ids_of(CONTROL, UNKNOWN, USER_DEFINED)) | self.eog
        wanted = (i for i in sorted(ids) if (control if self.is_control(i) else user))
        return Specials(((self.text(i), i) for i in wanted), rstrip=frozenset(rstrip))


def read_vocab(keys: Keys, defaults: dict[str, int]) -> Vocab:
    """All of `tokenizer.ggml.*` that is not about one algorithm. `defaults`: ids of roles by
    convention.

    Raises FileError when there are no tokens, or scores or types are not one per token.
    """
    if "tokenizer.ggml.tokens" not in keys.keys:
        raise FileError("the file has no tokens (key 'tokenizer.ggml.tokens'): it cannot read text")
    tokens = strings(keys.get_array("tokenizer.ggml.tokens"))
    n = len(tokens)
    type_ = _per_token(keys, "token_type", n, np.uint8, NORMAL)
    score = _per_token(keys, "scores", n, np.float32, 0)
    roles, problems = roles_of(keys.keys, keys.get_int, n, defaults)
    first = np.flatnonzero(_FIRST[tokens.first_bytes()])
    eog = end_ids(((int(i), tokens[int(i)], int(type_[i])) for i in first), roles)
    name = "tokenizer.ggml.suppress_tokens"
    suppress = tuple(int(i) for i in keys.get_array(name)) if name in keys.keys else ()
    bytes_ = _byte_ids(tokens, type_)
    return Vocab(tokens, type_, score, roles, eog, suppress, tuple(problems), bytes_)


def _per_token(
    keys: Keys, name: str, n: int, dtype: type[np.generic], missing: int
) -> NDArray[Any]:
    key = f"tokenizer.ggml.{name}"
    if key not in keys.keys:
        return np.full(n, missing, dtype)
    values = numbers(keys.get_array(key), dtype)
    if len(values) != n:
        raise FileError(f"{key} has {len(values)} entries for {n} tokens: the file is damaged")
    return values


def _byte_ids(tokens: Strings, type_: NDArray[np.generic]) -> dict[int, int]:
    found: dict[int, int] = {}
    for i in np.flatnonzero(type_ == BYTE):
        text = tokens[int(i)]
        try:
            value = int(text[3:5], 16) if text[:3] == b"<0x" and text[5:] == b">" else -1
        except ValueError:
            value = -1
        if value >= 0:
            found.setdefault(value, int(i))
    return found


def nameless(n: int) -> Vocab:
    """`n` tokens without text. Raises FileError for a number that no vocabulary has."""
    if not 0 < n <= 1 << 26:
        raise FileError(f"the file claims a vocabulary of {n} tokens")
    zeros = np.zeros(n, np.int64)
    kinds = np.full(n, NORMAL, np.uint8)
    return Vocab(Strings(b"", zeros, zeros), kinds, np.zeros(n, np.float32), {}, frozenset())
