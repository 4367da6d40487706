"""Imports point down only; a folder loads only the third-party packages that are listed for it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import llamapy

ROOT = Path(llamapy.__file__).parent
LAYERS = (
    "__main__",
    "cli",
    "api",
    "app",
    "runtime",
    "models quantize",
    "loader kv devices",
    "graph",
    "tokenize sample chat",
    "ffi",
    "base",
)
RANK = {name: depth for depth, row in enumerate(LAYERS) for name in row.split()}
# Doors narrower than the layers: what may be seen of the other folder.
DOORS = {
    ("models", "kv"): {"api", "ngrams"},
    ("models", "loader"): {"hparams", "bounded", "experts", "spec"},
    ("models", "devices"): set(),
    ("kv", "graph"): {"tensor", "ops", "device", "cgraph"},
}
THIRD_PARTY = {
    "ffi": {"numpy"},
    "tokenize": {"numpy", "tokenizers", "sentencepiece"},
    "sample": {"numpy", "llguidance"},
    "chat": {"jinja2"},
    "kv": {"numpy"},
    "devices/cpu": {"numpy"},
    "devices/ref": {"numpy", "gguf"},
    "devices/opencl": {"numpy", "pyopencl"},
    "quantize": {"numpy"},
    "runtime": {"numpy"},
    "api": {"numpy"},
    "app": {"numpy", "huggingface_hub"},
    "cli": {"typer", "click", "rich"},
}


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of every import, those inside of functions too; a name brought in from a
    package counts as `package.name`."""
    package = ("llamapy", *path.relative_to(ROOT).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(p for p in (start, node.module or "") if p)
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def files() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.py") if p != ROOT / "__init__.py")


def here(path: Path) -> list[str]:
    """['graph', 'alloc'] for llamapy/graph/alloc.py"""
    return list(path.relative_to(ROOT).with_suffix("").parts)


def wrong_layer(path: Path, name: str) -> bool:
    own, there = here(path), name.split(".")[1:]
    if not there or there[0] not in RANK:  # llamapy itself: its version
        return False
    if there[0] == own[0]:
        sides = len(own) > 2 and len(there) > 1
        return own[0] == "devices" and sides and there[1] != own[1]
    if RANK[there[0]] <= RANK[own[0]]:
        return True
    door = DOORS.get((own[0], there[0]))
    return door is not None and not door.intersection(there[1:2])


def test_imports_point_down() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: may not import {name}"
        for path in files()
        for line, name in imported(path)
        if name.split(".")[0] == "llamapy" and wrong_layer(path, name)
    ]
    assert found == []


def test_third_party_packages_stay_in_their_folders() -> None:
    known = sys.stdlib_module_names | {"llamapy"}
    found = []
    for path in files():
        own = here(path)
        folder = "/".join(own[:2]) if own[0] == "devices" else own[0]
        for line, name in imported(path):
            top = name.split(".")[0]
            if top not in known and top not in THIRD_PARTY.get(folder, set()):
                found.append(f"{path.relative_to(ROOT)}:{line}: {folder} may not load {top}")
    assert found == []


def test_every_folder_has_a_layer() -> None:
    assert {here(p)[0] for p in files()} <= RANK.keys()


def test_the_rules_bite() -> None:
    """The walk itself, on imports that must not pass."""
    assert wrong_layer(ROOT / "graph/alloc.py", "llamapy.devices.cpu")
    assert wrong_layer(ROOT / "loader/gguf.py", "llamapy.kv.api")
    assert wrong_layer(ROOT / "models/llama.py", "llamapy.devices")
    assert wrong_layer(ROOT / "models/llama.py", "llamapy.kv.unified.UnifiedCache")
    assert wrong_layer(ROOT / "devices/cpu/device.py", "llamapy.devices.ref.RefDevice")
    assert not wrong_layer(ROOT / "devices/cpu/device.py", "llamapy.devices.cpu.lower")
    assert not wrong_layer(ROOT / "models/llama.py", "llamapy.graph.ops.make")
    assert not wrong_layer(ROOT / "cli/main.py", "llamapy.__version__")
