"""SPM vocabularies against the plain definition: merge the best pair until none is left."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.base.errors import FileError
from llamapy.tokenize import load
from llamapy.tokenize.keys import MapKeys

SP = "▁"
WORDS = ["the", "cat", "sat", "on", "a", "mat", "then", "that", "hat", "ate", "rat"]


def pieces() -> tuple[list[str], list[float], list[int]]:
    """A vocabulary with bytes, letters, all beginnings of some words, runs of spaces, markup."""
    rows: list[tuple[str, float, int]] = [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3)]
    rows += [(f"<0x{b:02X}>", 0, 6) for b in range(256)]
    rows += [("<tag>", -1000, 4), ("\n", -1000, 4), ("\n\n", -1000, 4), ("  ", -1000, 4)]
    rows += [("<|im_end|>", -1000, 3), ("<|im_start|>", -1000, 3)]
    rng, known = random.Random(7), {SP, *"abcdefghmnorstué"}
    for word in WORDS:
        text = SP + word
        known |= {text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)}
    rows += [(t, -rng.random() * 20 - len(t) % 3, 1) for t in sorted(known)]
    return [r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows]


def keys(**changes: Any) -> MapKeys:
    tokens, scores, types = pieces()
    base: dict[str, Any] = {
        "model": "llama",
        "tokens": tokens,
        "scores": scores,
        "token_type": types,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_space_prefix": False,
        "add_bos_token": False,
    }
    base |= changes
    return MapKeys({f"tokenizer.ggml.{k}": v for k, v in base.items() if v is not None})


def merged(text: str) -> list[int]:
    """Ids of `text` (no special tokens in it) by the definition, in quadratic time."""
    tokens, scores, types = pieces()
    score = {t: s for t, s, y in zip(tokens, scores, types, strict=True) if y == 1}
    ids = {t: i for i, t in enumerate(tokens)}
    parts = list(text.replace(" ", SP))
    while True:
        pairs = [
            (-score[a + b], i)
            for i, (a, b) in enumerate(zip(parts, parts[1:], strict=False))
            if a + b in score
        ]
        if not pairs:
            break
        _, i = min(pairs)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    out: list[int] = []
    for part in parts:
        out += [ids[part]] if part in score else [ids[f"<0x{b:02X}>"] for b in part.encode()]
    return out


TOKENIZER = load(keys())


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="thecasonmr é🦙x", max_size=40))
def test_merges_like_the_definition(text: str) -> None:
    wanted: list[int] = []
    ids = {t: i for i, t in enumerate(pieces()[0])}
    parts = text.split("  ")  # two spaces are a user-defined token here
    for i, part in enumerate(parts):
        wanted += [ids["  "]] if i else []
        wanted += merged(part)
    assert TOKENIZER.encode(text) == wanted


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40))
def test_any_bytes_come_back(data: bytes) -> None:
    data = data.replace("▁".encode(), b"")  # stands for a space, by design of the format
    assert TOKENIZER.decode(TOKENIZER.encode(data)) == data


@pytest.mark.parametrize("data", [b"\xe6\xad", b"\xe2\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff"])
def test_a_part_of_a_character_is_its_bytes(data: bytes) -> None:
    ids = TOKENIZER.encode(data)
    assert [TOKENIZER.piece(i) for i in ids] == [bytes([b]) for b in data]


def test_argv_escapes_and_lone_surrogates_are_bytes() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("a\udcffb\ud800")) == b"a\xffb\xed\xa0\x80"


def test_user_defined_tokens_are_found_in_plain_text_and_control_tokens_are_not() -> None:
    ids = {t: i for i, t in enumerate(pieces()[0])}
    assert TOKENIZER.encode("<tag>\n\n\n") == [ids["<tag>"], ids["\n\n"], ids["\n"]]
    plain = TOKENIZER.encode("<|im_end|>")
    assert ids["<|im_end|>"] not in plain
    assert TOKENIZER.decode(plain) == b"<|im_end|>"
    assert TOKENIZER.encode("<|im_end|>", parse_special=True) == [ids["<|im_end|>"]]


def test_u2581_in_a_text_is_no_user_defined_space() -> None:
    ids = {t: i for i, t in enumerate(pieces()[0])}
    assert TOKENIZER.encode("a  b") == [ids["a"], ids["  "], ids["b"]]
    assert TOKENIZER.encode("a▁▁b") == merged("a") + merged("▁▁b")
    assert TOKENIZER.encode("a  ▁cat") == [ids["a"], ids["  "], *merged(" cat")]
    assert TOKENIZER.encode("<tag>▁ \n\n") == [ids["<tag>"], *merged("  "), ids["\n\n"]]


def test_control_tokens_print_nothing_unless_asked() -> None:
    id = pieces()[0].index("<|im_end|>")
    assert TOKENIZER.piece(id) == b""
    assert TOKENIZER.piece(id, True) == b"<|im_end|>"
    assert TOKENIZER.decode([id], special=True) == b"<|im_end|>"


def test_end_ids_are_the_declared_and_the_known() -> None:
    tokens = pieces()[0]
    assert TOKENIZER.eog == {tokens.index("</s>"), tokens.index("<|im_end|>")}
    assert TOKENIZER.eot == tokens.index("<|im_end|>")
    assert (TOKENIZER.bos, TOKENIZER.eos, TOKENIZER.unk, TOKENIZER.pad) == (1, 2, 0, None)


def test_space_prefix_comes_before_each_stretch_and_goes_again() -> None:
    prefixed = load(keys(add_space_prefix=True))
    assert prefixed.encode("the cat") == merged(" the cat")
    assert prefixed.encode("") == []
    end = pieces()[0].index("<|im_end|>")
    ids = prefixed.encode("the<|im_end|>cat", parse_special=True)
    assert ids == [*merged(" the"), end, *merged(" cat")]
    for text in ("the cat", " the cat", "<|im_end|>the<|im_end|> cat", "\n the", "<tag>cat"):
        ids = prefixed.encode(text, parse_special=True)
        assert prefixed.decode(ids, special=True).decode() == text


def test_bos_and_eos_once_where_the_file_asks() -> None:
    both = load(keys(add_bos_token=True, add_eos_token=True))
    assert both.encode("a") == [1, *merged("a"), 2]
    assert both.encode("") == [1, 2]
    assert both.encode("a", add_special=False) == merged("a")
    assert both.encode("<s>a</s>", parse_special=True) == [1, *merged("a"), 2]
    assert load(keys()).encode("<s>a", parse_special=True) == [1, *merged("a")]
    assert load(keys(add_bos_token=None)).add_bos
    assert load(keys(add_bos_token=None)).encode("a") == [1, *merged("a")]


def test_repeated_and_empty_pieces_do_no_harm() -> None:
    tokens, scores, types = pieces()
    more = load(
        keys(
            tokens=[*tokens, "cat", "", ""], scores=[*scores, 0, 0, 0], token_type=[*types, 1, 1, 1]
        )
    )
    assert more.n_vocab == len(tokens) + 3
    assert more.decode(more.encode("the cat")) == b"the cat"


def test_a_vocabulary_without_bytes_says_unknown() -> None:
    rows = [r for r in zip(*pieces(), strict=True) if r[2] != 6]
    few = load(
        keys(
            tokens=[r[0] for r in rows],
            scores=[r[1] for r in rows],
            token_type=[r[2] for r in rows],
        )
    )
    assert few.encode("Z") == [0]
    assert few.encode(b"\xff") == [0]


def test_phi3_special_tokens_swallow_the_space_behind_them() -> None:
    made = keys()
    made.keys["general.name"] = "Phi3"
    phi = load(made)
    end = pieces()[0].index("<|im_end|>")
    assert phi.encode("<|im_end|> \t cat", parse_special=True) == [end, *merged("cat")]
    assert phi.encode("<s> cat", parse_special=True) == [1, *merged(" cat")]


def test_wrong_lengths_and_missing_tokens_are_file_errors() -> None:
    with pytest.raises(FileError, match=r"token_type has 3 entries for \d+ tokens"):
        load(keys(token_type=[1, 1, 1]))
    with pytest.raises(FileError, match="scores has 1 entries"):
        load(keys(scores=[0.0]))
    with pytest.raises(FileError, match="no tokens"):
        load(keys(tokens=None))


def test_an_id_outside_the_vocabulary_has_no_role() -> None:
    made = load(keys(eot_token_id=10**6))
    assert made.eot == pieces()[0].index("<|im_end|>")
    assert any("eot_token_id is 1000000" in note for note in made.notes)


def test_a_million_equal_characters() -> None:
    ids = TOKENIZER.encode("a" * 10**6)
    assert ids == [pieces()[0].index("a")] * 10**6
