"""What is wrong with the model file ends with 3, whatever the command; too little memory with 5."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import speaking_model

from llamapy.base.errors import MemoryBudgetError
from llamapy.cli.main import main
from llamapy.loader.splits import open_model
from llamapy.tokenize import load
from llamapy.tokenize.bpe import ByteLevel

COMMANDS = {
    "run": ["-p", "x"],
    "logits": ["--tokens", "1", "-o", "/dev/null"],
    "graph": [],
    "batch": ["/dev/null"],
    "tokenize": ["-p", "x"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["missing", "folder", "html", "empty", "unreadable"])
def test_a_file_that_is_no_model(
    command: str, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"<!DOCTYPE html><html>" if kind == "html" else b"")
    if kind == "unreadable":
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("this user may read everything")
    assert main([command, "-m", str(path), *COMMANDS[command]]) == 3
    out, err = capfd.readouterr()
    assert out == "" and "m.gguf" in err
    assert err.startswith("llamapy: error: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-ngl", "few"], "-ngl few: expected a number of layers"),
        (["-ot", "nothing"], "-ot nothing: expected REGEX=BUFFER_TYPE"),
        (["-ts", "x"], "-ts x: expected numbers such as 3,1"),
    ],
)
def test_bad_placement_is_usage(
    args: list[str], says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "-m", str(tmp_path / "none"), "-p", "x", *args]) == 2
    assert says in capfd.readouterr().err


@pytest.mark.parametrize("error", [MemoryError, OverflowError("too large to convert")])
def test_a_text_that_memory_does_not_hold(
    error: Any, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line and exit code 5; of a batch, a record."""
    model, real = str(speaking_model.write(tmp_path / "m.gguf")), ByteLevel._encode_run

    def encode(self: ByteLevel, text: str) -> list[int]:
        if len(text) > 20:
            raise error
        return real(self, text)

    monkeypatch.setattr(ByteLevel, "_encode_run", encode)
    says = "a text of 21 bytes takes more memory to tokenise than there is"
    long = tmp_path / "long"
    long.write_bytes(b"e" * 21)
    for words in (["run", "-n", "1"], ["tokenize"], ["perplexity", "-c", "4"]):
        assert main([*words, "-m", model, "-f", str(long)]) == 5
        out, err = capfd.readouterr()
        assert out == "" and says in err and err.count("\n") == 1
    asked = tmp_path / "in"
    asked.write_text(f'{{"prompt": "{"e" * 21}"}}\n{{"prompt": "the", "n": 1}}\n')
    assert main(["batch", str(asked), "-m", model]) == 7
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert records[0]["error"]["code"] == 5 and records[1]["status"] == "ok"
    with open_model(Path(model)) as files, pytest.raises(MemoryBudgetError, match="21 characters"):
        load(files).encode("e" * 21)


def test_no_memory_anywhere(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: Path) -> bytes:
        raise MemoryError

    monkeypatch.setattr(Path, "read_bytes", read)
    args = ["tokenize", "-m", str(speaking_model.write(tmp_path / "m.gguf")), "-f", "x"]
    assert main(args) == 5
    assert capfd.readouterr() == (
        "", "llamapy: error: not enough memory: the system gave no more; try a smaller input\n"
    )  # fmt: skip
    assert main([*args, "--json"]) == 5
    found = json.loads(capfd.readouterr().err)
    assert found["error"]["code"] == 5
