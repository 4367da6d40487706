"""Which tokens have a role, which of them end a generation. No numpy in here: `inspect` asks."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

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
END_TEXTS = TURN_ENDS + OTHER_ENDS + ONLY_IF_CONTROL
NONE = (-1, 0xFFFFFFFF)  # both are written as an id to say that there is none

# Where a kind of vocabulary puts roles that the file gives to no id.
BY_CONVENTION: dict[str, dict[str, int]] = {
    "llama": {"bos": 1, "eos": 2, "unk": 0},
    "bert": {"bos": 101, "sep": 102, "unk": 100, "cls": 101, "mask": 103, "pad": 0},
    "t5": {"eos": 1, "unk": 2, "pad": 0},
}


def roles_of(
    keys: Container[str], get_int: Callable[[str], int], n: int, defaults: Mapping[str, int]
) -> tuple[dict[str, int], list[str]]:
    """Ids of `n` tokens by role, and what is wrong with the keys that say so. `defaults`: ids that
    a role has by convention."""
    roles, problems = dict[str, int](), list[str]()
    for role, names in ROLE_KEYS.items():
        for key in (f"tokenizer.ggml.{name}" for name in names):
            if key not in keys:
                continue
            id = get_int(key)
            if 0 <= id < n:
                roles[role] = id
                break
            if id not in NONE:
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
