"""Pages of help: complete, readable at 80 columns, and the same in docs/commands/."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

import llamapy
from llamapy.cli.main import COMMANDS, Row, main
from llamapy.cli.pages import page_of, parser_of, text

ROOT = Path(llamapy.__file__).parent.parent


def written() -> dict[Path, str]:
    spec = importlib.util.spec_from_file_location("write", ROOT / "docs" / "write_commands.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[Path, str] = module.written()
    return found


def test_docs_hold_what_help_says() -> None:
    for path, page in written().items():
        assert path.exists(), f"{path.name} is missing: make docs"
        assert path.read_text() == page, f"{path.name} is not up to date: make docs"


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_a_page_has_every_option(row: Row, capfd: pytest.CaptureFixture[str]) -> None:
    page = page_of(row.name, row.module)
    assert main([row.name, "--help"]) == 0
    shown = capfd.readouterr().out
    assert shown == text(page)
    assert max(map(len, shown.splitlines())) <= 80
    assert "Annotated" not in shown and page.about
    parser = parser_of(__import__(row.module, fromlist=["command"]).command)
    for p in parser.params:
        for name in (*p.opts, *p.secondary_opts) if p.param_type_name == "option" else ():
            assert re.search(rf"(^|[ ,]){re.escape(name)}([ ,\n]|$)", shown, re.M), name
        assert p.help, f"{p.name} says nothing"
    names = [name for option in page.options for name in option.names]
    assert len(names) == len(set(names)) and names.count("--help") == 1


def test_what_a_page_looks_like() -> None:
    lines = text(page_of("run", "llamapy.cli.run")).splitlines()
    assert lines[0] == "Usage: llamapy run [OPTIONS]"
    assert "What to continue:" in lines and "How tokens are chosen:" in lines
    assert "  -p, --prompt TEXT         The prompt; -: stdin." in lines
    assert "  -b, --batch-size N        Tokens per call. [2048]" in lines
    at = lines.index("  -e, --escape / --no-escape")
    assert lines[at + 1].strip().startswith("Read \\n")
    tokenize = text(page_of("tokenize", "llamapy.cli.tokenize"))
    assert tokenize.startswith("Usage: llamapy tokenize [TEXT] [OPTIONS]\n")
    assert "BOS and EOS as the file asks. [bos]" in tokenize
