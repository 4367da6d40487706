"""`llamapy tokenize`: ids, pieces and places; bytes from stdin; ids back to text."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gguf_writer import Writer

from llamapy.cli.main import main
from llamapy.tokenize import bytemap

MERGES = ["Ġ h", "Ġh i", "h i"]
TOKENS = [*bytemap.CHARS, "hi", "Ġh", "Ġhi", "<s>", "<|im_end|>"]
BOS, END = 259, 260


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("vocab")

    def save(name: str, pre: str | None, merges: list[str] | None, model: str = "gpt2") -> str:
        w = Writer()
        w.text("general.architecture", "llama").text("tokenizer.ggml.model", model)
        w.strings("tokenizer.ggml.tokens", TOKENS)
        w.array("tokenizer.ggml.token_type", "i32", [1] * 259 + [3, 3])
        w.u32("tokenizer.ggml.bos_token_id", BOS)
        w.key("tokenizer.ggml.add_bos_token", "bool", True)
        if pre is not None:
            w.text("tokenizer.ggml.pre", pre)
        if merges is not None:
            w.strings("tokenizer.ggml.merges", merges)
        path = folder / f"{name}.gguf"
        w.save(path)
        return str(path)

    return {
        "bpe": save("bpe", "gpt-2", MERGES),
        "no-pre": save("no-pre", None, MERGES),
        "odd-pre": save("odd-pre", "no-such", MERGES),
        "no-merges": save("no-merges", "gpt-2", None),
        "empty-merges": save("empty-merges", "gpt-2", []),
        "bad-merge": save("bad-merge", "gpt-2", ["h zz"]),
        "test": save("test", None, None, "test"),
    }


Out = pytest.CaptureFixture[str]


def test_lines(files: dict[str, str], capfd: Out) -> None:
    assert main(["tokenize", "-m", files["bpe"], "-p", "hi hi\n"]) == 0
    out, err = capfd.readouterr()
    assert [line.split() for line in out.splitlines()] == [
        ["259", "added", '"<s>"'],
        ["256", "0-2", '"hi"'],
        ["258", "2-5", '"', 'hi"'],
        ["10", "5-6", '"\\n"'],
    ]
    assert err == ""


def test_ids_alone_with_and_without_bos(files: dict[str, str], capfd: Out) -> None:
    assert main(["tokenize", "-m", files["bpe"], "-p", "hi hi", "--ids"]) == 0
    assert main(["tokenize", "-m", files["bpe"], "-p", "hi hi", "--ids", "--no-bos"]) == 0
    assert main(["tokenize", "-m", files["bpe"], "-p", "", "--ids"]) == 0
    assert capfd.readouterr().out == "259,256,258\n256,258\n259\n"


def test_json(files: dict[str, str], capfd: Out) -> None:
    assert main(["tokenize", "-m", files["bpe"], "-p", "hi é", "--json"]) == 0
    got = json.loads(capfd.readouterr().out)
    assert got["ids"] == [BOS, 256, 0x20, 0xC3, 0xA9]
    assert got["n_tokens"] == 5
    assert got["tokens"][1] == {"id": 256, "start": 0, "end": 2, "piece": "hi"}
    assert got["tokens"][3]["bytes"] == "ww=="
    assert (got["tokens"][0]["start"], got["tokens"][0]["end"]) == (0, 0)
    assert got["tokenizer"] | {"notes": []} == {
        "model": "gpt2", "pre": "gpt-2", "n_vocab": 261, "add_bos": True, "add_eos": False,
        "bos": BOS, "eos": None, "eog": [END], "notes": [],
    }  # fmt: skip


def test_special_text(files: dict[str, str], capfd: Out) -> None:
    args = ["tokenize", "-m", files["bpe"], "-p", "<s>hi<|im_end|>", "--ids"]
    assert main([*args, "--special"]) == 0
    assert capfd.readouterr() == (f"{BOS},256,{END}\n", "")
    assert main(args) == 0
    out, err = capfd.readouterr()
    assert str(END) not in out.split(",")
    assert "W06" in err and "<s>" in err
    assert main([*args, "--strict"]) == 2


def test_spaces_that_the_vocabulary_adds_have_no_place(tmp_path: Path, capfd: Out) -> None:
    w = Writer()
    w.text("general.architecture", "llama").text("tokenizer.ggml.model", "llama")
    w.strings("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>", "▁", "h", "i", "hi", "▁hi"])
    w.array("tokenizer.ggml.token_type", "i32", [2, 3, 3, 1, 1, 1, 1, 1])
    w.array("tokenizer.ggml.scores", "f32", [0, 0, 0, -4, -5, -6, -1, -2])
    w.save(tmp_path / "spm.gguf")
    args = ["tokenize", "-m", str(tmp_path / "spm.gguf"), "--special", "--check-roundtrip"]
    assert main([*args, "-p", "hi</s>hi hi", "--json"]) == 0
    got = json.loads(capfd.readouterr().out)
    assert got["ids"] == [1, 7, 2, 7, 7]
    assert [(t["start"], t["end"]) for t in got["tokens"]] == [
        (0, 0), (0, 2), (2, 6), (6, 8), (8, 11),
    ]  # fmt: skip
    assert main([*args, "-p", "hi▁hi"]) == 1
    assert "byte 2" in capfd.readouterr().err


def test_ids_back_to_text(files: dict[str, str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    m = ["tokenize", "-m", files["bpe"]]
    assert main([*m, "--tokens", "259,256,258,255,260"]) == 0
    assert capfdbinary.readouterr().out == b"hi hi\xff"
    assert main([*m, "--tokens", "256 260", "--special"]) == 0
    assert capfdbinary.readouterr().out == b"hi<|im_end|>"
    assert main([*m, "--tokens", "256,255", "--json"]) == 0
    got = json.loads(capfdbinary.readouterr().out)
    assert (got["text"], got["bytes"]) == ("hi\ufffd", "aGn/")
    assert main([*m, "--tokens", "999"]) == 2
    assert main([*m, "--tokens", "x"]) == 2


@pytest.mark.parametrize(
    ("name", "more", "code", "words"),
    [
        ("no-pre", [], 3, "the file names none"),
        ("no-pre", ["--pre", "gpt-2"], 0, ""),
        ("no-pre", ["--pre", "gpt2"], 2, "did you mean 'gpt-2'"),
        ("no-pre", ["--lenient"], 0, "W02"),
        ("no-pre", ["--lenient", "--strict"], 3, "W02"),
        ("odd-pre", [], 3, "no-such"),
        ("odd-pre", ["--lenient"], 0, "no-such"),
        ("no-merges", [], 3, "merges is missing"),
        ("empty-merges", [], 3, "merges is empty"),
        ("bad-merge", [], 3, "names 'zz', which is no token"),
        ("test", [], 2, "text cannot be tokenised"),
    ],
)
def test_vocabularies_that_need_a_word(
    files: dict[str, str], capfd: Out, name: str, more: list[str], code: int, words: str
) -> None:
    assert main(["tokenize", "-m", files[name], "-p", "hi", "--ids", *more]) == code
    out, err = capfd.readouterr()
    assert out == ("259,256\n" if code == 0 else "")
    assert words in err
    assert err.count("\n") == (1 if words else 0)


def test_inspect_still_works_on_a_vocabulary_that_cannot(files: dict[str, str], capfd: Out) -> None:
    for name in ("no-merges", "bad-merge", "odd-pre"):
        assert main(["inspect", files[name]]) == 0
    assert "261 tokens" in capfd.readouterr().out


def run(*args: str, stdin: bytes | None = b"") -> subprocess.CompletedProcess[bytes]:
    root = str(Path(__file__).resolve().parents[2])
    env: dict[str, Any] = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "llamapy", "tokenize", *args],
        input=stdin, capture_output=True, timeout=60, env=env, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("data", [b"\xe6\xad", b"\xe2\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff"])
def test_stdin_is_bytes(files: dict[str, str], data: bytes) -> None:
    done = run("-m", files["bpe"], "-p", "-", "--ids", "--no-bos", "--check-roundtrip", stdin=data)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == ",".join(map(str, data)).encode() + b"\n"
    back = run("-m", files["bpe"], "--tokens", done.stdout.decode().strip())
    assert back.stdout == data


def test_a_file_is_taken_byte_for_byte(files: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(b"hi\r\n\\n ")
    done = run("-m", files["bpe"], "-f", str(path), "--json")
    assert json.loads(done.stdout)["ids"] == [BOS, 256, 13, 10, *b"\\n "]
    assert run("-m", files["bpe"], "-f", str(tmp_path / "none")).returncode == 2
    assert run("-m", files["bpe"], "-f", str(path), "-p", "x").returncode == 2
    assert run("-m", str(tmp_path / "none.gguf"), "-p", "x").returncode == 3


def test_no_escape_codes_and_nothing_to_wait_for(files: dict[str, str]) -> None:
    done = run("-m", files["bpe"], "-p", "\x1b[31m hi")
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout + done.stderr
    assert run("-m", files["bpe"], "--ids", stdin=b"").stdout == b"259\n"
