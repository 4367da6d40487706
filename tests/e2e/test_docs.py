"""Examples in docs/ do what they are there for: every block marked `sh` is run, in order, page by
page, with a small model in place of the demo model. Blocks marked `console` are for reading."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import random_encoders
import speaking_model

import llamapy
from llamapy.base.paths import DEMO
from llamapy.cli.main import COMMANDS

ROOT = Path(llamapy.__file__).parent.parent
PAGES = [*sorted((ROOT / "docs" / "commands").glob("*.md")), ROOT / "docs" / "scripting.md"]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.M | re.S)
TOOLS = ("jq", "make", "parallel", "sqlite3", "xargs")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of an example: `llamapy` on the path, models, nothing of this machine's."""
    folder = tmp_path_factory.mktemp("docs")
    models, bin = folder / "models", folder / "bin"
    models.mkdir()
    bin.mkdir()
    demo = speaking_model.write(models / DEMO.file)
    shutil.copy(demo, folder / "model.gguf")
    os.truncate(demo, DEMO.size_bytes)  # as long as the real one; what follows is nobody's
    words = ["[PAD]", "▁the", "▁cat"]
    random_encoders.write(models / "bert.gguf", "bert", words=words, pooling="cls")
    for name, words_ in (("llamapy", f"{sys.executable} -m llamapy"), ("python", sys.executable)):
        script = bin / name
        script.write_text(f'#!/bin/sh\nexec {words_} "$@"\n')
        script.chmod(0o755)
    return {
        "PATH": f"{bin}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LLAMAPY_MODELS": str(models),
        "MODELS": str(models),
        "HOME": str(folder),
        "MODEL": str(folder / "model.gguf"),
        "LC_ALL": "C.UTF-8",
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples(page: Path, world: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "model.gguf").symlink_to(world["MODEL"])
    for block in blocks(page):
        missing = [t for t in TOOLS if re.search(rf"\b{t}\b", block) and not shutil.which(t)]
        if missing:
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env=world,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{page.name}:\n{block}\n{done.stdout[-500:]}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_every_command_has_examples_that_run() -> None:
    for row in COMMANDS:
        page = ROOT / "docs" / "commands" / f"{row.name}.md"
        assert any(f"llamapy {row.name}" in block for block in blocks(page)), row.name
