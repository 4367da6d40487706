"""What is done: a file that grows by whole lines and survives a kill at any moment.

Beside OUT lies OUT.job.json: the model and the parameters its lines were made with. A later job
goes on only with the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from llamapy.app.batch.lines import id_text
from llamapy.base.atomic import atomic_write, hold
from llamapy.base.closing import Closing
from llamapy.base.errors import FileError, LlamapyError, UsageError

Write = Callable[[bytes], None]


class Asked(Protocol):
    """What a line asks, as far as a file of results must know it."""

    @property
    def id(self) -> str | int: ...

    @property
    def digest(self) -> str: ...


def as_line(record: dict[str, Any]) -> bytes:
    """One line of JSON, UTF-8; a text that no UTF-8 can hold is escaped."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False).encode() + b"\n"


class OutFile(Closing):
    """A regular file, open for appending and ours alone until closed.

    `resume` first; then `kept` holds the lines of items that are answered.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.side = self.path.with_name(f"{self.path.name}.job.json")
        self.kept: dict[str, bytes] = {}
        self._fd = self._open()

    def _open(self) -> int:
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as e:
            raise UsageError(f"cannot write {self.path}: {e.strerror}") from e
        if not hold(fd):
            os.close(fd)
            raise UsageError(f"{self.path}: another batch is writing it")
        return fd

    def resume(self, job: dict[str, Any], items: Sequence[Asked], *, force: bool) -> dict[str, Any]:
        """Read what an earlier job left, cut off a torn last line, drop errors; what the side file
        says from now on: `job`, with the seed of the earlier one. UsageError where the two differ,
        unless `force`."""
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        job = self._agree(job, bool(whole), force)
        by_id: dict[str, Asked] = {id_text(item.id): item for item in items}
        lines = []
        for number, line in enumerate(whole.splitlines(keepends=True), 1):
            name = self._check(line, number, by_id, force)
            if name is not None and name not in self.kept:
                self.kept[name] = line
                lines.append(line)
        if len(lines) == whole.count(b"\n"):
            os.ftruncate(self._fd, len(whole))
        else:
            self._replace(b"".join(lines))
        os.lseek(self._fd, 0, os.SEEK_END)
        with atomic_write(self.side) as f:
            f.write(json.dumps(job, indent=1).encode() + b"\n")
        return job

    def _agree(self, job: dict[str, Any], begun: bool, force: bool) -> dict[str, Any]:
        before = self._side() if begun else None
        if begun and before is None and not force:
            raise UsageError(
                f"{self.path} has lines, and {self.side.name} does not say how they were made: "
                "remove it, choose another -o, or go on with --force"
            )
        if before is None:
            return job
        differ = [k for k in ("llamapy", "model", "params") if before.get(k) != job[k]]
        if differ and not force:
            raise UsageError(f"{self.path} was begun with {_difference(before, job, differ)}")
        drawn = "seed" in job and "seed" in before and job["params"]["seed"] is None
        return job | ({"seed": before["seed"]} if drawn else {})

    def _side(self) -> dict[str, Any] | None:
        try:
            value = json.loads(self.side.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as e:
            raise FileError(f"cannot read {self.side}: {e}") from e
        return value if isinstance(value, dict) else None

    def _check(self, line: bytes, number: int, by_id: dict[str, Asked], force: bool) -> str | None:
        """Which item a line answers; None when it is to be answered anew."""
        try:
            record = json.loads(line)
            name = id_text(record.get("id", record.get("custom_id")))
            ok = record["status"] == "ok"
            digest = record["digest"]
        except (ValueError, KeyError, AttributeError):
            if force:
                return None
            raise UsageError(f"{self.path}: line {number} is no result of a batch") from None
        item = by_id.get(name)
        if item is None or item.digest != digest:
            if not force:
                what = "is not in the input" if item is None else "asked something else"
                raise UsageError(
                    f"{self.path}: line {number} answers {name}, which {what}: choose another -o, "
                    "or drop it with --force"
                )
            return None
        return name if ok else None

    def _replace(self, data: bytes) -> None:
        """All new contents, old or new whatever happens."""
        with atomic_write(self.path) as f:
            f.write(data)
        os.close(self._fd)
        self._fd = self._open()

    def rewrite(self, lines: Sequence[bytes]) -> None:
        """Begin with these lines alone."""
        self._replace(b"".join(lines))
        os.lseek(self._fd, 0, os.SEEK_END)

    def write(self, line: bytes) -> None:
        """Append a line, in one piece unless the disk is full."""
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as e:
            raise LlamapyError(f"cannot write to {self.path}: {e.strerror}") from e

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _difference(before: dict[str, Any], job: dict[str, Any], differ: Sequence[str]) -> str:
    """What differs first, by name."""
    key = differ[0]
    a, b = before.get(key), job[key]
    if isinstance(a, dict) and isinstance(b, dict):
        name = next(k for k in {**b, **a} if a.get(k) != b.get(k))
        key, a, b = f"{key} {name}", a.get(name), b.get(name)
    return f"{key} {a!r}, not {b!r}: choose another -o, or go on with --force"


class Ordered:
    """Lines in the order of `names`, each held back until those before it are written."""

    def __init__(self, names: Sequence[str], write: Write) -> None:
        self._names, self._write = names, write
        self._next = 0
        self._held: dict[str, bytes] = {}

    def put(self, name: str, line: bytes) -> None:
        self._held[name] = line
        while self._next < len(self._names) and self._names[self._next] in self._held:
            self._write(self._held.pop(self._names[self._next]))
            self._next += 1

    def begin(self, kept: dict[str, bytes], rewrite: Callable[[Sequence[bytes]], None]) -> None:
        """`kept` lines are in the file already. Where they are not the first ones in order, the
        file begins anew with those that are, and the others wait for their turn."""
        n = next((i for i, x in enumerate(self._names) if x not in kept), len(self._names))
        if list(kept) != list(self._names[:n]):
            rewrite([kept[name] for name in self._names[:n]])
            self._held = {name: kept[name] for name in self._names[n:] if name in kept}
        self._next = n
