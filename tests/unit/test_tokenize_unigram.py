"""Unigram vocabularies against the plain definition: of all cuts, the one with the greatest sum."""

from __future__ import annotations

import random
from typing import Any

import pytest

from llamapy.base.errors import FileError
from llamapy.tokenize import load
from llamapy.tokenize.charsmap import MAX_TEXT, CharsMap
from llamapy.tokenize.keys import MapKeys

SP = "▁"
SPECIAL = [("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("[X]", 0.0, 4)]


def pieces(seed: int = 3) -> list[tuple[str, float, int]]:
    rng = random.Random(seed)
    words = ["the", "cat", "sat", "tea", "aaa", "é", "日本"]
    known = {SP, *"abcehst"} | {
        (SP + w)[i:j] for w in words for i in range(4) for j in range(i + 1, 5) if (SP + w)[i:j]
    }
    return [*SPECIAL, *((t, -1.0 - 9 * rng.random(), 1) for t in sorted(known))]


def keys(rows: list[tuple[Any, float, int]] | None = None, **changes: Any) -> MapKeys:
    rows = pieces() if rows is None else rows
    base: dict[str, Any] = {
        "model": "t5",
        "tokens": [r[0] for r in rows],
        "scores": [r[1] for r in rows],
        "token_type": [r[2] for r in rows],
        "add_eos_token": False,
    }
    base |= changes
    return MapKeys({f"tokenizer.ggml.{k}": v for k, v in base.items() if v is not None})


def best_sum(text: str, rows: list[tuple[str, float, int]]) -> float:
    """Of all cuts of `text`, characters without a piece of their own costing 10 more than any."""
    score = {t: s for t, s, y in rows if y == 1}
    unknown = min(score.values()) - 10.0
    if not text:
        return 0.0
    rest = [best_sum(text[n:], rows) + score[text[:n]] for n in range(1, 5) if text[:n] in score]
    return max(rest + ([] if text[0] in score else [unknown + best_sum(text[1:], rows)]))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_cut_of_all(seed: int) -> None:
    rows, rng = pieces(seed), random.Random(seed)
    tokenizer = load(keys(rows))
    unknown = min(s for _, s, y in rows if y == 1) - 10.0
    for _ in range(60):
        text = "".join(rng.choice("abcehst é日本q") for _ in range(rng.randint(1, 9)))
        ids = tokenizer.encode(text)
        seen, total, at = text.replace(" ", SP), 0.0, 0
        for id in ids:
            if id == 2:  # as many unknown characters as stand side by side
                while at < len(seen) and seen[at] in "q":
                    at, total = at + 1, total + unknown
            else:
                assert seen.startswith(rows[id][0], at)
                at, total = at + len(rows[id][0]), total + rows[id][1]
        assert at == len(seen)
        assert total == pytest.approx(best_sum(seen, rows), abs=1e-4)  # scores are float32


def test_spaces_as_the_file_says() -> None:
    rows = [*SPECIAL, *((t, -1.0, 1) for t in (SP, "a", "b"))]

    def texts(text: str, **how: Any) -> str:
        tokenizer = load(keys(rows, **how))
        return "".join(rows[i][0] for i in tokenizer.encode(text, parse_special=True))

    assert texts("  a  b ") == "▁▁a▁▁b▁"
    assert texts("  a  b ", add_space_prefix=True) == "▁▁▁a▁▁b▁"
    assert texts("  a  b ", remove_extra_whitespaces=True) == "▁a▁b"
    both = {"add_space_prefix": True, "remove_extra_whitespaces": True}
    assert texts("  a  b ", **both) == "▁a▁b"
    assert texts("   ", **both) == ""
    assert texts("a[X]b</s>a", **both) == "▁a[X]▁b</s>▁a"
    tokenizer = load(keys(rows, **both))
    assert tokenizer.decode(tokenizer.encode("a  b")) == b"a b"


def test_ends_and_roles() -> None:
    tokenizer = load(keys(add_eos_token=None))
    assert (tokenizer.bos, tokenizer.eos, tokenizer.unk, tokenizer.pad) == (None, 1, 2, 0)
    assert tokenizer.encode("the")[-1] == 1 and tokenizer.encode("the")[0] > 4
    assert tokenizer.encode("", add_special=False) == []


def test_unknown_characters_side_by_side_are_one() -> None:
    rows = [*SPECIAL, ("a", -1.0, 1), (SP + "a", -1.0, 1)]
    assert load(keys(rows)).encode("qqqaqq") == [2, 5, 2]
    assert load(keys(rows)).encode("qq qq a") == [2, 6]  # the space is unknown as well
    assert load(keys(rows)).encode(b"a\xff\xfe\xe3\x81a") == [5, 2, 5]
    assert load(keys(rows[:1], unknown_token_id=None)).encode("qa") == []


def test_pieces_across_spaces() -> None:
    rows = [*SPECIAL, (SP, -2.0, 1), ("a", -2.0, 1), ("a▁a", -3.0, 1), ("▁▁", -2.5, 1)]
    assert load(keys(rows)).encode("a a  a") == [7, 8, 6]


def test_odd_vocabularies_do_no_harm() -> None:
    nan, inf = float("nan"), float("inf")
    rows: list[tuple[Any, float, int]] = [*SPECIAL, ("a", nan, 1), ("b", inf, 1), ("c", -inf, 1)]
    rows += [("", -1.0, 1), (b"\xff\xc3", -1.0, 1), ("a", -1.0, 1), ("x" * 5000, -1.0, 1)]
    rows += [("<0x4>", 0.0, 6), ("d", -1.0, 77), ("e", -1.0, 5)]
    tokenizer = load(keys(rows))
    assert tokenizer.encode("a")[-1] == 10  # of two alike the last
    for text in ("abc", "bcabc", "e d", "x" * 4999, b"\xff\xc3ab"):
        assert all(0 <= i < len(rows) for i in tokenizer.encode(text))
    assert load(keys([("a", 0.0, 3)])).encode("abc") == []


# ---- maps of characters -----------------------------------------------------------------


def charsmap(becomes: dict[str, str]) -> bytes:
    """The map's bytes, made by trying places one after another."""
    units, taken, texts, offsets = [0] * 4096, {0}, bytearray(), dict[str, int]()
    for key, text in becomes.items():
        offsets[key] = len(texts)
        texts += text.encode() + b"\0"

    def place(at: int, prefix: bytes) -> None:
        longer = {k.encode()[len(prefix)] for k in becomes if k.encode().startswith(prefix)
                  and len(k.encode()) > len(prefix)}  # fmt: skip
        ends = prefix.decode("utf-8", "replace") in becomes
        labels = [*([0] if ends else []), *sorted(longer)]
        base = next(b for b in range(1, 2048) if not {at ^ b ^ c for c in labels} & taken)
        units[at] |= base << 10 | (0x100 if ends else 0)
        taken.update(at ^ base ^ c for c in labels)
        for c in labels:
            if c:
                units[at ^ base ^ c] = c
                place(at ^ base ^ c, prefix + bytes([c]))
            else:
                units[at ^ base] = 1 << 31 | offsets[prefix.decode()]

    place(0, b"")
    table = b"".join(u.to_bytes(4, "little") for u in units)
    return len(table).to_bytes(4, "little") + table + bytes(texts)


BECOMES = {
    "\t": " ",
    "Ａ": "a",
    "e\u0301": "é",
    "が": "が",
    "か\u3099": "が",
    "ﷺ": "abc de",
    "x": "",
}


def test_the_longest_key_wins() -> None:
    m = CharsMap(charsmap(BECOMES))
    assert m.apply("Ａ\te\u0301e か\u3099か ﷺx\u0301!") == "a ée がか abc de\u0301!"
    assert m.apply("\0\udcff\udc80Ａ") == "\0\ufffd\ufffda"
    assert m.apply("") == "" and m.apply("plain") == "plain"


def test_a_map_comes_before_the_cut() -> None:
    tokenizer = load(keys(precompiled_charsmap=list(charsmap(BECOMES))))
    assert tokenizer.encode("ﷺ\te\u0301") == tokenizer.encode("abc de é")


@pytest.mark.parametrize(
    "raw", [b"abc", b"\0" * 8, b"\x05\0\0\0" + bytes(9), b"\xff\xff\xff\xff1234"]
)
def test_what_is_no_map_is_refused(raw: bytes) -> None:
    with pytest.raises(FileError, match=r"precompiled_charsmap: \d+ bytes"):
        load(keys(precompiled_charsmap=list(raw)))


def test_damaged_maps_do_no_harm() -> None:
    rng, sound = random.Random(5), charsmap(BECOMES)
    for _ in range(150):
        raw = bytearray(sound)
        for _ in range(rng.randint(1, 400)):
            raw[rng.randrange(4, len(raw))] = rng.choice((0, 255, rng.randrange(256)))
        got = CharsMap(bytes(raw)).apply("Ａ\te\u0301か\u3099 x" * 3 + "ﷺ\U0010ffff")
        assert len(got) <= 40 * MAX_TEXT
    loop = b"".join((c | 0x100).to_bytes(4, "little") for c in range(256))  # all lead to each other
    got = CharsMap(b"\0\4\0\0" + loop + b"\0" * 9).apply("a" * 10000)
    assert set(got) <= {"a"}
