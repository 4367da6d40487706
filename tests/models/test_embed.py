"""`llamapy embed`: texts as vectors, through the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import random_encoders

from llamapy.base.errors import MemoryBudgetError
from llamapy.cli.main import main
from llamapy.runtime.engine import Engine

WORDS = ["[PAD]", "▁the", "▁cat", "s", "▁sat", "▁.", "▁[", "▁]"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A bert whose vocabulary has a few words; 101 and 102 are its ends."""
    folder = tmp_path_factory.mktemp("embed")
    return str(random_encoders.write(folder / "m.gguf", "bert", words=WORDS, pooling="cls"))


def run(capsys, *args):
    code = main(["embed", *args])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_vector_a_line(bert, capsys):
    code, out, _ = run(capsys, "-m", bert, "-p", "the cats", "-p", "the sat.")
    rows = np.array([line.split() for line in out.splitlines()], np.float32)
    assert code == 0 and rows.shape == (2, 64)
    assert np.allclose((rows * rows).sum(axis=1), 1)
    code, alone, _ = run(capsys, "-m", bert, "-p", "The sat .")
    assert code == 0 and alone == out.splitlines(keepends=True)[1]


def test_with_little_memory_fewer_texts_at_a_time(bert, capsys, monkeypatch):
    args = ("-m", bert, *(word for i in range(9) for word in ("-p", "the cat " * (i + 1))))
    code, want, _ = run(capsys, *args)
    assert code == 0
    opened, context = [], Engine.context

    def scarce(self, **sizes):
        opened.append((sizes["n_seq_max"], sizes["n_ctx"]))
        if sizes["n_seq_max"] > 3:
            raise MemoryBudgetError("too many")
        return context(self, **sizes)

    monkeypatch.setattr(Engine, "context", scarce)
    code, out, _ = run(capsys, *args)
    assert code == 0 and out == want
    assert [n for n, _ in opened] == [9, 4, 2] and opened[0][1] > opened[2][1] >= 20


def test_json_and_a_file(bert, capsys, tmp_path):
    (tmp_path / "texts").write_text("the cat\n\ncats sat\r\n")
    args = ("-m", bert, "-f", str(tmp_path / "texts"), "--json", "--normalize", "none")
    code, out, _ = run(capsys, *args)
    got = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [g["index"] for g in got] == [0, 1, 2]
    assert [g["n_tokens"] for g in got] == [4, 2, 4 + 1]
    assert {(g["pooling"], g["normalize"]) for g in got} == {("cls", "none")}
    code, out, _ = run(capsys, *args, "--pooling", "none")
    each = [np.array(json.loads(line)["embedding"], np.float32) for line in out.splitlines()]
    assert [e.shape for e in each] == [(4, 64), (2, 64), (5, 64)]
    for e, g in zip(each, got, strict=True):
        assert np.array_equal(e[0], np.array(g["embedding"], np.float32))


def test_scores_are_not_normalised(bert, capsys):
    code, out, _ = run(capsys, "-m", bert, "-p", "cat", "--pooling", "rank", "--json")
    got = json.loads(out)
    assert code == 0 and got["normalize"] == "none" and len(got["embedding"]) == 1


def test_a_question_and_a_document(bert, capsys):
    code, out, _ = run(capsys, "-m", bert, "-p", "cats\tthe cat", "--pooling", "rank", "--json")
    assert code == 0 and json.loads(out)["n_tokens"] == 1 + 2 + 1 + 2 + 1


@pytest.mark.parametrize(
    "args, code, text",
    [
        (("-p", "cat", "--pooling", "median"), 2, "pooling must be"),
        (("-p", "cat", "--normalize", "l3"), 2, "--normalize must be"),
        (("-p", "cat", "-f", "x"), 2, "not both"),
        (("-p", "cat " * 63), 4, "65 tokens"),
        (("-p", "the cat sat", "-c", "4"), 4, "give -c 5"),
    ],
)
def test_what_is_refused(bert, capsys, args, code, text):
    got, out, err = run(capsys, "-m", bert, *args)
    assert got == code and text in err and not out
