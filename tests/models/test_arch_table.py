"""The list of architectures: what the command prints, and the page that is made of it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from llamapy.app.archs import table
from llamapy.models import registry

DOCS = Path(__file__).parents[2] / "docs"


def test_every_architecture_says_what_it_is() -> None:
    rows = table()
    assert len(rows) == len(registry.modules()) > 100
    for row in rows:
        assert row["what"].endswith("."), row
    names = [row["name"] for row in rows]
    assert names == sorted(set(names)) == registry.known()


def test_what_is_kept() -> None:
    kept = {row["name"]: row["cache"] for row in table()}
    assert kept["llama"] == "K, V"
    assert kept["gemma3"] == "K, V, windows"
    assert kept["deepseek2"] == "latent"
    assert kept["kimi-linear"] == "latent, states"
    assert kept["bert"] == "nothing: embeddings"
    assert kept["dream"] == "whole sequence"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("page", DOCS / "write_architectures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), "run python docs/write_architectures.py"
