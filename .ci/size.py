"""Count the lines that hold code, per folder, against the budgets in pyproject.toml.

Blank lines, comments and docstrings are free. Exit 1 when a folder is over its budget or a file is
longer than the hard limit.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE_LINES, FILE_LINES_HARD = 400, 600
SUFFIXES = {".py", ".c", ".h", ".def"}
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def python_lines(text: str) -> int:
    free: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.body and isinstance(node.body[0], ast.Expr):
            doc = node.body[0]
            if isinstance(doc.value, ast.Constant) and isinstance(doc.value.value, str):
                free.update(range(doc.lineno, (doc.end_lineno or doc.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(n not in free and s.strip()[:1] not in ("", "#") for n, s in lines)


def c_lines(text: str) -> int:
    return sum(bool(line.strip()) for line in C_COMMENT.sub("", text).splitlines())


def measure(folder: Path) -> tuple[int, list[tuple[str, int]]]:
    """Lines of code under `folder`, and its files that are longer than they should be."""
    total, long = 0, []
    for path in sorted(folder.rglob("*")):
        if path.suffix not in SUFFIXES or "build" in path.relative_to(folder).parts:
            continue
        text = path.read_text(encoding="utf-8")
        total += python_lines(text) if path.suffix == ".py" else c_lines(text)
        if text.count("\n") > FILE_LINES:
            long.append((str(path.relative_to(ROOT)), text.count("\n")))
    return total, long


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    failed = False
    for name, budget in project["tool"]["llamapy"]["size"].items():
        total, long = measure(ROOT / name)
        over = total > budget
        failed |= over
        print(f"{name:<20}{total:>6} of {budget:>5}{'  OVER BUDGET' if over else ''}")
        for path, lines in long:
            hard = lines > FILE_LINES_HARD
            failed |= hard
            print(f"  {path}: {lines} lines, {'limit' if hard else 'aim'} {FILE_LINES}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
