"""A model that may lie in several files: shards found by name, checked, and shown as one.

    with open_model("model-00002-of-00003.gguf") as files:      # any shard, a folder, a plain file
        files.keys, files.tensors, files.data(info)              # as with one GGUF

Shards are named `PREFIX-00001-of-000NN.gguf` and carry `split.no` (from 0), `split.count` and
`split.tensors.count` (of the whole model). Pieces made by cutting a file at some byte are another
thing: they have to be joined first, and we say how.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from llamapy.base.closing import Closing
from llamapy.base.errors import FileError
from llamapy.loader.cursor import CUT
from llamapy.loader.gguf import GGUF, TensorInfo
from llamapy.loader.keys import Keyed, KeyTable
from llamapy.loader.words import one_line, shown

_SHARD = re.compile(r"(?P<prefix>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
# model.gguf.part1of3, model.gguf-split-a, model.gguf.part-b, model.gguf.001, model.gguf.aa
_PIECE = re.compile(
    r"(?P<whole>.+\.gguf)[._-]?(?:(?:split|part)[._-]?(?:[a-z]{1,2}|\d{1,3})"
    r"|(?<=[._-])(?:a[a-z]|\d{1,3}))(?:[._-]?of[._-]?\d{1,3})?",
    re.DOTALL | re.IGNORECASE,
)


class ModelFiles(Closing, Keyed):
    """One or more shards as one model. `keys` are those of shard 0; `tensors` those of all shards,
    each with the `shard` it lies in."""

    def __init__(self, shards: list[GGUF]) -> None:
        self.shards = shards
        self.path = shards[0].path
        self.keys: KeyTable = shards[0].keys
        self.tensors: dict[str, TensorInfo] = {}
        self._merge()

    def _merge(self) -> None:
        for no, shard in enumerate(self.shards):
            for name, info in shard.tensors.items():
                other = self.tensors.get(name)
                if other is not None:
                    raise FileError(
                        f"{one_line(shard.path)}: tensor {shown(name)} stands in "
                        f"{one_line(self.shards[other.shard].path.name)} as well; {CUT}"
                    )
                self.tensors[name] = info._replace(shard=no)

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(shard.size_bytes for shard in self.shards)

    @property
    def version(self) -> int:
        return self.shards[0].version

    @property
    def alignment(self) -> int:
        return self.shards[0].alignment

    def data(self, info: TensorInfo) -> memoryview:
        """The bytes of a tensor, as they lie in its shard."""
        return self.shards[info.shard].data(info)

    def prefetch(self) -> None:
        """Ask the system to read the data ahead."""
        for shard in self.shards:
            shard.prefetch()

    def forget(self, info: TensorInfo) -> None:
        """As GGUF.forget."""
        self.shards[info.shard].forget(info)

    def close(self) -> None:
        """As GGUF.close, for every shard."""
        self.keys, self.tensors = KeyTable(), {}
        for shard in self.shards:
            shard.close()


def open_model(path: str | os.PathLike[str]) -> ModelFiles:
    """Open a plain file, the model that a shard belongs to, or the only model of a folder.

    Raises FileError: no such file, no or several models in a folder, shards missing (each named),
    shards that do not belong together, pieces that have to be joined first.
    """
    path = Path(path)
    if path.is_dir():
        path = _only_model(path)
    shards: list[GGUF] = []
    try:
        for p in shard_paths(path):
            shards.append(GGUF.open(p))
        _check_shards(shards)
        return ModelFiles(shards)
    except BaseException as e:
        for shard in shards:
            shard.close()
        if isinstance(e, FileError):
            _explain_piece(path)
        raise


def _quoted(path: Path) -> str:
    return shlex.quote(one_line(path))


def _only_model(folder: Path) -> Path:
    """The first file of the one model in a folder; all shards of a model count as one."""
    try:
        files = sorted(p for p in folder.iterdir() if ".gguf" in p.name.lower() and p.is_file())
    except OSError as e:
        raise FileError(f"{one_line(folder)}: cannot be listed: {e.strerror}") from None
    models: dict[str, Path] = {}
    for p in files:
        shard, piece = _SHARD.fullmatch(p.name), _PIECE.fullmatch(p.name)
        if shard:
            models.setdefault(f"{shard['prefix']}-of-{shard['count']}", p)
        elif piece:
            models.setdefault(piece["whole"], p)
        elif p.suffix.lower() == ".gguf":
            models.setdefault(p.name, p)
    if len(models) == 1:
        return next(iter(models.values()))
    if not models:
        raise FileError(f"{one_line(folder)}: no GGUF file in this folder")
    names = ", ".join(one_line(p.name) for p in list(models.values())[:5])
    more = ", ..." if len(models) > 5 else ""
    raise FileError(
        f"{one_line(folder)}: {len(models)} models in this folder, name one: {names}{more}"
    )


def _explain_piece(path: Path) -> None:
    """Raise FileError if a file that cannot be read is named as a piece of a byte-split one."""
    match = _PIECE.fullmatch(path.name)
    if not match or not path.is_file():
        return
    pieces = []
    for p in path.parent.iterdir():
        other = _PIECE.fullmatch(p.name)
        if other and other["whole"] == match["whole"]:
            pieces.append(p)
    if len(pieces) == 1:
        raise FileError(
            f"{one_line(path)}: a piece of a file cut at some byte, by its name; the other pieces "
            "are not in this folder, and all must be joined first"
        )
    whole = path.with_name(match["whole"])
    raise FileError(
        f"{one_line(path)}: one of {len(pieces)} pieces of a file cut at some byte; join them "
        f"first: cat {' '.join(map(_quoted, sorted(pieces, key=_natural)))} > {_quoted(whole)}"
    )


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """So that part10 comes after part9."""
    parts = re.split(r"(\d+)", path.name)
    return [(1, int(s)) if s.isdecimal() else (0, s) for s in parts]


def shard_paths(path: Path) -> list[Path]:
    """All shards of the model, by the name of one of them; each missing one is named."""
    match = _SHARD.fullmatch(path.name)
    if not match:
        return [path]
    count, no = int(match["count"]), int(match["no"])
    if not 1 <= no <= count:
        raise FileError(
            f"{one_line(path)}: named as shard {no} of {count}, expected 1 to {count}; "
            "was it renamed?"
        )
    names = [f"{match['prefix']}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1)]
    missing = [name for name in names if not path.with_name(name).exists()]
    if missing and path.exists():
        listed = ", ".join(one_line(name) for name in missing[:10])
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise FileError(
            f"{one_line(path)}: shard {no} of {count}; missing in the same folder: {listed}{more}"
        )
    return [path] if missing else [path.with_name(name) for name in names]


def _check_shards(shards: list[GGUF]) -> None:
    """What the shards say of themselves, against their names and against each other."""
    first = shards[0]
    count = first.get_int("split.count", 1)
    if len(shards) == 1 and count > 1:
        no = first.get_int("split.no", 0)
        raise FileError(
            f"{one_line(first.path)}: shard {no + 1} of {count} by its key split.count, but not "
            f"named so; expected a name ending in -{no + 1:05d}-of-{count:05d}.gguf"
        )
    if len(shards) == 1:
        return
    for no, shard in enumerate(shards):
        _same(shard, "split.count", len(shards), "by the file's name")
        _same(shard, "split.no", no, "by the file's name")
    total = sum(len(shard.tensors) for shard in shards)
    _same(first, "split.tensors.count", total, f"tensors in all {len(shards)} shards together")


def _same(shard: GGUF, key: str, expected: int, why: str) -> None:
    found = shard.get_int(key)
    if found != expected:
        raise FileError(
            f"{one_line(shard.path)}: key {key}: expected {expected}, {why}, found {found}; "
            "were files of several models mixed, or renamed?"
        )
