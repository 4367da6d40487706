"""What is wrong with the model file ends with 3, whatever the command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from llamapy.cli.main import main

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
