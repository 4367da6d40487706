"""RWKV's vocabularies: the longest token at each place, of any bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from llamapy.tokenize import load
from llamapy.tokenize.keys import MapKeys
from llamapy.tokenize.rwkv import unescaped


def keys(tokens: list[str], **changes: Any) -> MapKeys:
    types = [3] + [1] * (len(tokens) - 1)
    base = {"model": "rwkv", "tokens": tokens, "token_type": types, **changes}
    return MapKeys({f"tokenizer.ggml.{k}": v for k, v in base.items()})


def written(raw: bytes) -> str:
    """As the file has it."""
    return repr(raw)[2:-1].replace('"', '\\"')


BYTES = ["<s>", *(written(bytes([b])) for b in range(256))]
MORE = [b"the", b"there", b" the", b"\n\n", b"\t\t", "日本".encode(), "日".encode()[:2], b"aaaa"]
TOKENS = BYTES + [written(raw) for raw in MORE]


def longest(raw: bytes) -> list[int]:
    known = {bytes([b]): b + 1 for b in range(256)} | {t: 257 + i for i, t in enumerate(MORE)}
    ids = []
    while raw:
        best = max((t for t in known if raw.startswith(t)), key=len)
        ids.append(known[best])
        raw = raw[len(best) :]
    return ids


def test_the_longest_token_wins() -> None:
    tokenizer, rng = load(keys(TOKENS)), random.Random(3)
    parts = [*MORE, b"t", b"h", b"e", b"a", b"\xff", b"'", b'"', b"\\", b"\0", "é".encode()]
    for _ in range(300):
        raw = b"".join(rng.choice(parts) for _ in range(rng.randint(0, 12)))
        ids = tokenizer.encode(raw)
        assert ids == longest(raw)
        assert tokenizer.decode(ids) == raw


def test_special_tokens_and_ends() -> None:
    tokenizer = load(keys(TOKENS, eos_token_id=0))
    assert tokenizer.encode("<s>the", parse_special=True) == [0, 257]
    assert len(tokenizer.encode("<s>")) == 3
    assert (tokenizer.bos, tokenizer.eos, sorted(tokenizer.eog)) == (None, 0, [0])
    assert tokenizer.decode([0, 257]) == b"the"


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        (b"\\n\\r\\t", b"\n\r\t"),
        (b"\\x00\\xe6", b"\0\xe6"),
        (b"\\\\n", b"\\n"),
        (b"\\'\\\"", b"'\""),
        (b"\\", b"\\"),
        (b"\\xg1", b"xg1"),
    ],
)
def test_escapes(text: bytes, raw: bytes) -> None:
    assert unescaped(text) == raw


def test_bytes_without_a_token_are_left_out_or_unknown() -> None:
    assert load(keys(["<s>", "ab", "b", ""])).encode("aabb\xff") == [1, 2]
    assert load(keys(["<s>", "ab", "b"], unknown_token_id=0)).encode("aab") == [0, 1]
