"""Byte-level BPE: round trips, special tokens, and vocabularies that cannot work."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llamapy.base.errors import FileError, UsageError
from llamapy.tokenize import bpe as bpe_module
from llamapy.tokenize import bytemap, load
from llamapy.tokenize.keys import MapKeys
from llamapy.tokenize.pre import BY_NAME, ROWS

SPACE = bytemap.CHARS[0x20]
MERGES = ["h e", "l l", "he ll", "hell o", f"{SPACE} w", "o r", f"{SPACE}w or", "l d"]
MERGES += [f"{SPACE}wor ld", "1 2", "12 3", f"{SPACE} {SPACE}", "à ¤"]
SPECIAL = ["<|im_end|>", "<|im_start|>", "<end>", "<end>>"]


def vocabulary() -> tuple[list[str], list[int]]:
    tokens = [*bytemap.CHARS, *(m.replace(" ", "") for m in MERGES), *SPECIAL]
    types = [1] * (len(tokens) - len(SPECIAL)) + [3, 3, 4, 4]
    return tokens, types


def keys(**changes: Any) -> MapKeys:
    tokens, types = vocabulary()
    base: dict[str, Any] = {
        "model": "gpt2",
        "pre": "smollm",
        "tokens": tokens,
        "token_type": types,
        "merges": MERGES,
    }
    base |= changes
    return MapKeys({f"tokenizer.ggml.{k}": v for k, v in base.items() if v is not None})


def named(ids: list[int]) -> list[str]:
    return [vocabulary()[0][i].replace(SPACE, "_") for i in ids]


TOKENIZER = load(keys())


def test_the_alphabet_has_every_byte_once() -> None:
    assert len(set(bytemap.CHARS)) == 256
    assert bytemap.CHARS[ord("A")] == "A"
    assert bytemap.CHARS[0] == "Ā"
    assert bytemap.CHARS[0x20] == "Ġ"
    assert bytemap.CHARS[0xAD] == "Ń"
    assert bytemap.to_bytes("".join(bytemap.CHARS)) == bytes(range(256))
    assert bytemap.to_bytes("Ġ漢") == b" " + "漢".encode()


def test_merges_by_rank() -> None:
    assert named(TOKENIZER.encode("hello world")) == ["hello", "_world"]
    assert named(TOKENIZER.encode("hell world")) == ["hell", "_world"]
    assert named(TOKENIZER.encode("123")) == ["1", "2", "3"]  # smollm cuts digits
    assert named(load(keys(pre="gpt-2")).encode("123")) == ["123"]


def test_ignore_merges_takes_a_whole_piece() -> None:
    tokens, types = vocabulary()
    tokens, types = [*tokens, "low"], [*types, 1]
    whole = load(keys(pre="llama-bpe", tokens=tokens, token_type=types, add_bos_token=False))
    assert whole.encode("low") == [len(tokens) - 1]
    apart = load(keys(pre="dbrx", tokens=tokens, token_type=types))
    assert named(apart.encode("low")) == ["l", "o", "w"]


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_come_back(data: bytes) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(data)) == data


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.sampled_from([row.names[0] for row in ROWS]))
def test_any_text_comes_back_through_every_pre_tokenizer(text: str, pre: str) -> None:
    made = LOADED.setdefault(pre, load(keys(), pre=pre))
    assert made.decode(made.encode(text, add_special=False)).decode() == text


LOADED: dict[str, Any] = {}


@pytest.mark.parametrize("data", [b"\xe6\xad", b"\xe2\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff"])
def test_a_part_of_a_character_is_its_bytes(data: bytes) -> None:
    assert TOKENIZER.encode(data) == list(data)  # ids 0 to 255 are the bytes here
    assert TOKENIZER.encode(b"he" + data + b"ll") == [256, *data, 257]


@pytest.mark.parametrize("n", [1, 2, 3, 17, 300])
def test_white_space_comes_back(n: int) -> None:
    for text in (" " * n, "\t" * n, "\r\n" * n, " " * n + "a", "a" + "\n" * n):
        assert TOKENIZER.decode(TOKENIZER.encode(text)).decode() == text


def test_specials_longest_first_and_control_only_when_asked() -> None:
    end, start, user, longer = (vocabulary()[0].index(s) for s in SPECIAL)
    assert TOKENIZER.encode("<end>><end>") == [longer, user]
    assert TOKENIZER.decode([user]) == b"<end>"
    text = "<|im_start|>hello<|im_end|>"
    assert TOKENIZER.encode(text, parse_special=True) == [start, *TOKENIZER.encode("hello"), end]
    plain = TOKENIZER.encode(text)
    assert not {start, end} & set(plain)
    assert TOKENIZER.decode(plain).decode() == text
    assert TOKENIZER.decode([start, end]) == b""
    assert TOKENIZER.decode([start, end], special=True) == b"<|im_start|><|im_end|>"
    assert TOKENIZER.specials_in("a <|im_end|> <end>") == ["<|im_end|>"]
    assert TOKENIZER.eog == {end}


def test_an_end_mark_typed_normal_is_still_no_text() -> None:
    tokens, types = vocabulary()
    end = tokens.index("<|im_end|>")
    types[end] = 4
    made = load(keys(token_type=types))
    assert made.eog == {end}
    assert end not in made.encode("<|im_end|>")
    assert made.piece(end) == b""


def test_gpt_oss_messages_end_without_ending_the_turn() -> None:
    tokens, types = vocabulary()
    more = ["<|end|>", "<|return|>", "<|call|>"]
    made = load(keys(tokens=[*tokens, *more], token_type=[*types, 3, 3, 3]))
    n = len(tokens)
    assert n not in made.eog
    assert {n + 1, n + 2} <= made.eog


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"merges": None}, "merges is missing"),
        ({"merges": []}, "merges is empty"),
        ({"merges": [*MERGES, "x zz"]}, r"entry 13 \('x' 'zz'\) names 'zz', which is no token"),
        ({"merges": ["h l"]}, "names 'hl', which is no token"),
        ({"merges": ["hello"]}, "'hello' is not two pieces"),
    ],
)
def test_merges_that_cannot_work(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(FileError, match=reason):
        load(keys(**changes))


def test_a_merge_listed_twice_keeps_its_first_rank() -> None:
    twice = load(keys(merges=[*MERGES, "h e"]))
    assert named(twice.encode("hello")) == ["hello"]


@pytest.mark.parametrize("pre", [None, "", "default", "no-such"])
def test_a_pre_tokenizer_nobody_knows(pre: str | None, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FileError, match="--pre NAME") as e:
        load(keys(pre=pre))
    assert "\n" not in str(e.value)
    lenient = load(keys(pre=pre), lenient=True)
    assert lenient.pre == "default"
    assert any("default" in note for note in lenient.notes)
    assert "W02" in capfd.readouterr().err
    asked = load(keys(pre=pre), pre="qwen2")
    assert asked.pre == "qwen2"
    assert asked.notes
    assert capfd.readouterr().err == ""


def test_an_unknown_flag_value_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'smollm'"):
        load(keys(), pre="smolm")


def test_names_are_unique_and_llama3_starts_with_bos() -> None:
    assert sum(len(row.names) for row in ROWS) == len(BY_NAME)
    assert load(keys(pre="llama-bpe", bos_token_id=3)).encode("h") == [3, ord("h")]
    assert load(keys(bos_token_id=3)).encode("h") == [ord("h")]


def test_long_text_in_chunks_has_the_same_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "hello world, it's 123 o'clock  \n\n and\tso on. " * 40
    for row in ROWS[1:]:
        made = load(keys(), pre=row.names[0])
        whole = made.encode(text)
        with monkeypatch.context() as m:
            m.setattr(bpe_module, "CHUNK", 7)
            assert made.encode(text) == whole


def test_a_vocabulary_that_lacks_bytes_never_fails() -> None:
    tokens, types = vocabulary()
    tokens[0xFF], types[0xFF] = "[gone]", 3
    tokens[0xF0], types[0xF0] = "[gone2]", 3
    made = load(keys(tokens=tokens, token_type=types))
    bad = list("\ufffd".encode())
    assert made.encode(b"a\xffb") == [ord("a"), *bad, ord("b")]
    assert made.encode("a🦙b") == [ord("a"), *bad, ord("b")]


def test_a_million_equal_characters() -> None:
    assert TOKENIZER.encode("a" * 10**6) == [ord("a")] * 10**6
    ids = TOKENIZER.encode(" " * 10**6)
    assert TOKENIZER.decode(ids) == b" " * 10**6


def test_gemma4_falls_back_to_bytes() -> None:
    tokens = [f"<0x{b:02X}>" for b in range(256)] + ["▁", "a", "b", "ab", "▁ab", "\n", "\n\n"]
    made = load(
        MapKeys(
            {
                "tokenizer.ggml.model": "gemma4",
                "tokenizer.ggml.tokens": tokens,
                "tokenizer.ggml.token_type": [6] * 256 + [1] * 7,
                "tokenizer.ggml.merges": ["a b", "▁ ab", "\n \n"],
            }
        )
    )
    assert made.encode(" ab\n\nb") == [260, 262, 258]
    assert made.encode("é") == list("é".encode())
    assert made.encode(b"\xff") == [0xFF]
    assert made.decode(made.encode(b" ab\xff\xc3\xa9 b\n")) == b" ab\xff\xc3\xa9 b\n"


@pytest.mark.parametrize("kind", ["test", "none"])
def test_a_vocabulary_without_text_says_so(kind: str) -> None:
    made = load(keys(model=kind, tokens=["tok_0", "tok_1"], token_type=None))
    assert (made.n_vocab, made.kind) == (2, kind)
    assert made.decode([1, 0]) == b"tok_1tok_0"
    with pytest.raises(UsageError, match=f"'{kind}'.*token ids"):
        made.encode("a")
    with pytest.raises(UsageError, match="id 2 is outside"):
        made.piece(2)


def test_no_tokens_at_all() -> None:
    arch = {"general.architecture": "llama", "llama.vocab_size": 5}
    made = load(MapKeys({"tokenizer.ggml.model": "none", **arch}))
    assert (made.n_vocab, made.decode([4]), made.eog) == (5, b"", frozenset())
    with pytest.raises(FileError, match="vocabulary is unknown"):
        load(MapKeys({"tokenizer.ggml.model": "none"}))
    with pytest.raises(FileError, match="vocabulary of"):
        load(MapKeys(arch | {"llama.vocab_size": 1 << 40}))


def test_a_kind_not_built_yet_is_ids_only() -> None:
    made = load(keys(model="plamo2"))
    with pytest.raises(UsageError, match="'plamo2' is not supported yet"):
        made.encode("a")
