"""The vocabulary as the file tells it: pieces, scores, types, and the tokens with a role."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llamapy.base.errors import FileError
from llamapy.tokenize.keys import Bytes, Keys, Strings, numbers, strings
from llamapy.tokenize.specials import Specials

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

# The roles a key of the file can give to an id, and the keys, newest spelling first.
ROLE_KEYS: dict[str, tuple[str, ...]] = {
    "bos": ("bos_token_id",),
    "eos": ("eos_token_id",),
    "eot": ("eot_token_id",),
    "eom": ("eom_token_id",),
    "unk": ("unknown_token_id",),
    "sep": ("seperator_token_id",),  # spelled so in the format
    "pad": ("padding_token_id",),
    "cls": ("cls_token_id",),
    "mask": ("mask_token_id",),
    "fim_pre": ("fim_pre_token_id", "prefix_token_id"),
    "fim_suf": ("fim_suf_token_id", "suffix_token_id"),
    "fim_mid": ("fim_mid_token_id", "middle_token_id"),
    "fim_pad": ("fim_pad_token_id",),
    "fim_rep": ("fim_rep_token_id",),
    "fim_sep": ("fim_sep_token_id",),
}

# Texts by which models end a turn, whatever the keys say; the first that is there is the eot.
TURN_ENDS = (
    b"<|eot_id|>",
    b"<|im_end|>",
    b"<|end|>",
    b"<end_of_turn>",
    b"<turn|>",
    b"<|endoftext|>",
    b"<|end_of_text|>",
    b"<EOT>",
    b"_<EOT>",
    b"[EOT]",
    "<｜end▁of▁sentence｜>".encode(),
    b"<end_of_utterance>",
)
OTHER_ENDS = (
    b"<|eom_id|>",
    b"<|return|>",
    b"<|call|>",
    b"<|flush|>",
    b"<|calls|>",
    b"[EOS]",
    b"[e~[",
)
# Markup of the web as well: an end only where the file calls it a control token.
ONLY_IF_CONTROL = (b"</s>", b"<eos>")
_FIRST = np.zeros(256, np.bool_)
_FIRST[[t[0] for t in TURN_ENDS + OTHER_ENDS + ONLY_IF_CONTROL]] = True


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
    roles, problems = _roles(keys, n, defaults)
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


def _roles(keys: Keys, n: int, defaults: dict[str, int]) -> tuple[dict[str, int], list[str]]:
    roles, problems = dict[str, int](), list[str]()
    for role, names in ROLE_KEYS.items():
        for key in (f"tokenizer.ggml.{name}" for name in names):
            if key not in keys.keys:
                continue
            id = keys.get_int(key)
            if 0 <= id < n:
                roles[role] = id
                break
            if id not in (-1, 0xFFFFFFFF):  # both are written to say: none
                problems.append(f"{key} is {id}, the vocabulary has {n} tokens: ignored")
        else:
            if role in defaults and defaults[role] < n:
                roles[role] = defaults[role]
    return roles, problems


def end_ids(tokens: Iterable[tuple[int, bytes, int]], roles: dict[str, int]) -> frozenset[int]:
    """Ids that end a generation: the declared ones, and tokens whose text is a known end mark.

    `tokens`: (id, text, type), all of them or those that may matter. Fills in `roles` an eot and
    eom that only the text tells. gpt-oss: `<|end|>` closes a message, not the turn, where
    `<|return|>` and `<|call|>` do.
    """
    found: dict[bytes, int] = {}
    for id, text, type_ in tokens:
        if (
            text in TURN_ENDS
            or text in OTHER_ENDS
            or (text in ONLY_IF_CONTROL and type_ == CONTROL)
        ):
            found[text] = id
    ends = set(found.values())
    if b"<|return|>" in found and b"<|call|>" in found:
        ends.discard(found.pop(b"<|end|>", -1))
    turn_end = next((found[text] for text in TURN_ENDS if text in found), None)
    if turn_end is not None:
        roles.setdefault("eot", turn_end)
    if b"<|eom_id|>" in found:
        roles.setdefault("eom", found[b"<|eom_id|>"])
    declared = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
    return frozenset(ends | {roles[r] for r in declared if r in roles})


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
