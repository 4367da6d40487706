"""Manifests as llama-gguf-hash writes them: a line for each tensor and one for all of them, each
`KIND  HEX  FILE:TENSOR` or `KIND  HEX  FILE`. What is hashed is the data of tensors, not the file;
for the last line that of all of them in the order of the table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from llamapy.base.errors import UsageError
from llamapy.loader.words import one_line

KINDS = ("xxh64", "sha1", "sha256")
MAX_BYTES = 1 << 28
_LINE = re.compile(r"(xxh64|sha1|sha256|xxh3|uuid)\s+([0-9A-Fa-f-]+)\s+(.*?)(?:\s+-\s+\w+)?\s*")
_DIGITS = {"xxh64": 16, "sha1": 40, "sha256": 64}


@dataclass(slots=True)
class Manifest:
    """Expected hashes by kind: of tensors by name, and of all together. `unread`: lines of kinds
    that we do not compute."""

    path: str
    tensors: dict[str, dict[str, str]] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    unread: int = 0

    def kinds(self) -> list[str]:
        """Those that are needed."""
        of_tensors = {kind for row in self.tensors.values() for kind in row}
        return [kind for kind in KINDS if kind in of_tensors or kind in self.whole]


def read_manifest(path: str, tensors: Collection[str]) -> Manifest:
    """UsageError for a file that cannot be read or has no line of a manifest. `tensors`: the names
    in the file, since names may have colons."""
    try:
        with Path(path).open("rb") as f:
            raw = f.read(MAX_BYTES + 1)
    except OSError as e:
        raise UsageError(f"cannot read {one_line(path)}: {e.strerror}") from e
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{one_line(path)}: more than {MAX_BYTES} bytes, too large for a manifest")
    out = Manifest(path)
    for kind, digest, name in _lines(raw.decode("utf-8", "backslashreplace")):
        if kind not in _DIGITS:
            out.unread += 1
            continue
        if len(digest) != _DIGITS[kind]:
            raise UsageError(f"{one_line(path)}: a {kind} of {len(digest)} digits: {digest[:80]}")
        tensor = _tensor_of(name, tensors)
        row = out.whole if tensor is None else out.tensors.setdefault(tensor, {})
        row[kind] = digest.lower()
    if not out.tensors and not out.whole:
        raise UsageError(f"{one_line(path)}: no line of a manifest, such as 'xxh64  HEX  FILE'")
    return out


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip())
        if match:
            yield match[1], match[2], match[3]


def _tensor_of(name: str, tensors: Collection[str]) -> str | None:
    """The tensor that FILE:TENSOR means; None when there is only a FILE."""
    parts = name.split(":")
    for i in range(1, len(parts)):
        if ":".join(parts[i:]) in tensors:
            return ":".join(parts[i:])
    return None if name.lower().endswith(".gguf") or len(parts) == 1 else parts[-1]


def line(kind: str, digest: str, name: str) -> str:
    """As llama-gguf-hash prints it."""
    return f"{kind:<8}  {digest}  {name}"
