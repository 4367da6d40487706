"""Rows looked up by the last tokens together, against the rule written out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from llamapy.base.errors import FileError
from llamapy.kv.ngrams import last_tokens, ngram_rows, remembered
from llamapy.loader.ngrams import read_ngrams

EOS, BIG = 2, (1 << 63) + 12345
MULTIPLIERS, SIZES, OFFSETS = (BIG, 7, 1 << 40), (11, 13, 17, 101), (0, 11, 24, 41)


def rows_of(context: list[int]) -> list[int]:
    """`context`: the token, then those before it, as far as there are any."""
    seen: list[int] = context[:1]
    for t in [*context[1:], *[EOS] * 3][:2]:
        seen.append(EOS if EOS in seen[1:] else t)
    out = []
    for n in (2, 3):
        mixed = 0
        for t, m in zip(seen[:n], MULTIPLIERS, strict=False):
            mixed ^= t * m % (1 << 64)
        out += [mixed % SIZES[h] + OFFSETS[h] for h in (2 * n - 4, 2 * n - 3)]
    return out


def test_rows_are_those_of_the_rule_wherever_a_sequence_is_cut():
    a, b = [5, 9, EOS, 4, 4, 30, 7], [EOS, 1, 0, 0]
    want = [rows_of(s[: i + 1][::-1]) for s in (a, b) for i in range(len(s))]
    for cut in range(len(a)):
        cells = np.zeros((3, 2), np.float32)
        got = np.zeros((len(a) + len(b), 4), np.int32)
        steps = [(a[:cut], [], 0), (a[cut:], b, cut)] if cut else [(a, b, 0)]
        for one, other, at in steps:
            runs = [(0, len(one), 1 if at else -1, 1), (len(one), len(other), -1, 2)]
            ubatch = SimpleNamespace(
                tokens=np.array([*one, *other], np.int32), n_tokens=len(one) + len(other)
            )
            step = SimpleNamespace(runs=np.array(runs[: 1 + bool(other)], np.int32))
            last = last_tokens(ubatch, step, 3, lambda i, cells=cells: cells[i].tobytes())
            rows = ngram_rows(last, EOS, MULTIPLIERS, OFFSETS, SIZES)
            got[at : at + len(one)], got[len(a) :] = rows[: len(one)], 0
            if other:
                got[len(a) :] = rows[len(one) :]
            cells[1] = remembered(last)[len(one) - 1]
        assert got.tolist() == want, cut


class Keys(dict):
    path, keys = "m.gguf", property(lambda self: self)

    def get_int(self, key, default=None):
        return self.get(key, default)

    get_array = dict.get


GOOD = {
    "x.ple.layers": [1], "x.ple.ngram_size": 3, "x.ple.heads_per_ngram": 2,
    "x.embedding_length_per_layer_input": 4, "x.ple.conv_kernel": 4, "x.ple.eos_token_id": EOS,
    "x.ple.layer_multipliers": MULTIPLIERS, "x.ple.head_offsets": OFFSETS,
    "x.ple.head_vocab_sizes": SIZES,
}  # fmt: skip


def test_keys_are_read():
    n = read_ngrams(Keys(GOOD), "x", 2, 16)
    assert (n.layer, n.n, n.per, n.width, n.taps, n.eos, n.n_rows) == (1, 3, 2, 4, 4, EOS, 142)
    assert read_ngrams(Keys(), "x", 2, 16).layer == -1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ple.layers", [0, 1]),
        ("ple.layers", [2]),
        ("ple.ngram_size", 9),
        ("ple.conv_kernel", 12),
        ("embedding_length_per_layer_input", 5),
        ("ple.layer_multipliers", (1, 2)),
        ("ple.head_offsets", (0, 11, 24, -1)),
        ("ple.head_vocab_sizes", (11, 13, 0, 5)),
        ("ple.head_vocab_sizes", (11, 13, 5, 1 << 31)),
    ],
)
def test_what_no_table_can_be_is_refused(key, value):
    with pytest.raises(FileError, match=rf"x\.{key}"):
        read_ngrams(Keys(GOOD | {f"x.{key}": value}), "x", 2, 16)
