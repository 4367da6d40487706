"""`verify`: findings as they are made, then the report. A finding is something wrong; a file with
none is sound: every length and extent agrees, no name stands twice, every number is one, and every
checksum that is known agrees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from llamapy.app.verify.manifest import Manifest, read_manifest
from llamapy.app.verify.numbers import n_blocks
from llamapy.app.verify.stream import Hash, Tensor, new, walk
from llamapy.app.verify.vocabulary import check_vocabulary
from llamapy.base.errors import FileError
from llamapy.base.paths import KNOWN
from llamapy.loader.gguf import GGUF
from llamapy.loader.splits import open_model, shard_paths
from llamapy.loader.table import TensorInfo
from llamapy.loader.words import one_line, shown

SCHEMA_VERSION = 1
HASHED = "xxh64"  # of each tensor, whatever a manifest has


@dataclass(frozen=True, slots=True)
class Finding:
    """`kind`: structure, vocabulary, number or checksum. `text` names the file."""

    kind: str
    path: str
    tensor: str | None
    text: str


Progress = Callable[[int, int], None]


def verify(
    path: str | os.PathLike[str],
    manifest: str | None = None,
    progress: Progress = lambda done, total: None,
) -> Iterator[Finding | dict[str, Any]]:
    """Findings, then the report, which has them again. FileError when nothing can be read: no such
    file, or no GGUF; UsageError for a manifest that is none."""
    run = _Verify(progress)
    for found in run.run(Path(path), manifest):
        run.findings.append(found)
        yield found
    yield run.report(Path(path))


class _Verify:
    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.findings: list[Finding] = []
        self.files: list[dict[str, Any]] = []
        self.tensors: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.whole: dict[str, Hash] = {}
        self.n_bytes = self.total = 0

    def run(self, path: Path, manifest: str | None) -> Iterator[Finding]:
        with ExitStack() as stack:
            files, wrong = _open(path, stack)
            yield from wrong
            names = {name for file in files for name in file.tensors}
            expected = Manifest("") if manifest is None else read_manifest(manifest, names)
            if expected.unread:
                self.notes.append(f"{expected.unread} lines of the manifest are of other hashes")
            self.total = sum(file.size_bytes for file in files)
            self.whole = {kind: new(kind) for kind in {HASHED, *expected.whole}}
            kinds = [HASHED, *(k for k in expected.kinds() if k != HASHED)]
            for no, file in enumerate(files):
                yield from check_vocabulary_of(file, no)
                yield from self._one(file, no, kinds, expected)
            yield from self._missing(expected, names)
            yield from self._compare(expected.whole, self._wholes(), expected.path, None)

    def _one(
        self, file: GGUF, shard: int, kinds: list[str], expected: Manifest
    ) -> Iterator[Finding]:
        path, infos = one_line(file.path), _apart(file)
        before = self.n_bytes
        row: dict[str, Any] = {"path": path, "size_bytes": file.size_bytes, "sha256": None}
        self.files.append(row)
        done: list[dict[str, Any]] = []
        for got in walk(
            file, infos, kinds, self.whole, lambda n: self.progress(before + n, self.total)
        ):
            if isinstance(got, str):
                row["sha256"] = got
                yield from _known(file, got)
                continue
            info = got.scan.info
            done.append(_row(got, shard))
            if got.scan.n:
                yield _bad_number(path, got)
            want = expected.tensors.get(info.name, {})
            yield from self._compare(want, got.hashes, expected.path, info.name)
        self.n_bytes += file.size_bytes
        seen = {r["name"] for r in done}
        self.tensors += done
        self.tensors += [_unread(t, shard) for t in file.tensors.values() if t.name not in seen]

    def _compare(
        self, want: dict[str, str], got: dict[str, str], path: str, tensor: str | None
    ) -> Iterator[Finding]:
        what = "all tensors together" if tensor is None else f"tensor {shown(tensor)}"
        for kind, digest in want.items():
            if kind in got and got[kind] != digest:
                text = f"{one_line(path)}: {what}: {kind} expected {digest}, found {got[kind]}"
                yield Finding("checksum", one_line(path), tensor, text)

    def _missing(self, expected: Manifest, names: set[str]) -> Iterator[Finding]:
        path = one_line(expected.path)
        for name in sorted(expected.tensors.keys() - names):
            text = f"{path}: tensor {shown(name)} is not in the file"
            yield Finding("checksum", path, name, text)
        for name in sorted(names - expected.tensors.keys()) if expected.tensors else ():
            text = f"{path}: tensor {shown(name)} of the file is not in the manifest"
            yield Finding("checksum", path, name, text)

    def _wholes(self) -> dict[str, str]:
        return {kind: h.hexdigest() for kind, h in self.whole.items()}

    def _all_read(self) -> bool:
        torn = any(f.kind == "structure" for f in self.findings)
        return bool(self.whole) and not torn and all(row[HASHED] for row in self.tensors)

    def report(self, path: Path) -> dict[str, Any]:
        """For JSON."""
        return {
            "schema_version": SCHEMA_VERSION,
            "command": "verify",
            "path": one_line(path),
            "sound": not self.findings,
            "files": self.files,
            "xxh64": self._wholes()[HASHED] if self._all_read() else None,
            "tensors": self.tensors,
            "findings": [asdict(f) for f in self.findings],
            "notes": self.notes,
        }


def _open(path: Path, stack: ExitStack) -> tuple[list[GGUF], list[Finding]]:
    """The files that can be read, damaged ones as far as they can, and what is wrong with them or
    with how they belong together. FileError when none can."""
    first = ""
    paths = [path]
    try:
        with open_model(path) as model:
            paths = [shard.path for shard in model.shards]
    except FileError as e:
        if path.is_dir() or not path.is_file():
            raise
        first = str(e)
        try:
            paths = shard_paths(path)
        except FileError:
            paths = [path]
    files: list[GGUF] = []
    texts = [first] if first else []
    for p in paths:
        try:
            files.append(stack.enter_context(GGUF.open(p, lenient=True)))
            texts += files[-1].problems
        except FileError as e:
            texts.append(str(e))
    if not files:
        raise FileError(texts[0])
    shown_as = one_line(path)
    return files, [Finding("structure", shown_as, None, t) for t in dict.fromkeys(texts)]


def check_vocabulary_of(file: GGUF, no: int) -> Iterator[Finding]:
    """Of the first file, which has the keys."""
    path = one_line(file.path)
    if no == 0:
        for text in check_vocabulary(file.keys):
            yield Finding("vocabulary", path, None, f"{path}: {text}")


def _apart(file: GGUF) -> list[TensorInfo]:
    """Tensors whose bytes are in the file and in no other tensor (that others are not has been
    found already), so that a table cannot ask for more work than the file has bytes."""
    out: list[TensorInfo] = []
    end = file.data_offset
    for t in sorted(file.tensors.values(), key=lambda t: t.offset):
        if t.offset >= end and t.offset + t.n_bytes <= file.size_bytes:
            out.append(t)
            end = t.offset + t.n_bytes
    return out


def _row(t: Tensor, shard: int) -> dict[str, Any]:
    return {
        **_unread(t.scan.info, shard),
        "n_nonfinite": t.scan.n,
        "first_nonfinite": t.scan.first,
        "xxh64": t.hashes[HASHED],
    }


def _unread(info: TensorInfo, shard: int) -> dict[str, Any]:
    """A tensor whose bytes are not there, or another's as well."""
    return {
        "name": info.name,
        "type": info.type.name,
        "shard": shard,
        "n_blocks": n_blocks(info),
        "n_nonfinite": None,
        "first_nonfinite": None,
        "xxh64": None,
    }


def _bad_number(path: str, t: Tensor) -> Finding:
    info = t.scan.info
    more = f"; {t.scan.n} such numbers in all" if t.scan.n > 1 else ""
    text = f"{path}: tensor {shown(info.name)} ({info.type.name}): {t.scan.where()}{more}"
    return Finding("number", path, info.name, text)


def _known(file: GGUF, sha256: str) -> Iterator[Finding]:
    """A model that `pull` fetches, by its name."""
    path = one_line(file.path)
    for model in KNOWN.values():
        if file.path.name == model.file and sha256 != model.sha256:
            text = f"{path}: sha256 expected {model.sha256}, as '{model.name}' has, found {sha256}"
            yield Finding("checksum", path, None, text)
