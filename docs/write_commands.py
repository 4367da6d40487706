"""Writes what the commands say of themselves into docs/commands/: the page of `llamapy --help` into
README.md, that of each command between the marks of its own page, around which examples are written
by hand. `python docs/write_commands.py`, or `make docs`. A test compares the pages with this."""

from __future__ import annotations

from pathlib import Path

from llamapy.cli.main import COMMANDS, help_text
from llamapy.cli.pages import page_of, text

FOLDER = Path(__file__).parent / "commands"
BEGIN, END = "<!-- help: made by `make docs` -->\n", "<!-- end of help -->\n"
INDEX = """# Commands

    llamapy COMMAND --help

{links}

```text
{help}```
"""


def index() -> str:
    """README.md: the list."""
    links = "\n".join(f"- [`{row.name}`]({row.name}.md): {row.about}" for row in COMMANDS)
    return INDEX.format(links=links, help=help_text())


def with_help(old: str, name: str, module: str) -> str:
    """A command's page, its help renewed; `old` is empty for a new one."""
    if not old:
        old = f"# llamapy {name}\n\n{BEGIN}{END}\n## Examples\n"
    before, _, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n```text\n{text(page_of(name, module))}```\n\n{END}{after}"


def written() -> dict[Path, str]:
    """Every page as it should be."""
    out = {FOLDER / "README.md": index()}
    for row in COMMANDS:
        path = FOLDER / f"{row.name}.md"
        out[path] = with_help(path.read_text() if path.exists() else "", row.name, row.module)
    return out


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, page in written().items():
        path.write_text(page)
