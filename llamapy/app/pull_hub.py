"""`hf:USER/REPO[:QUANT]`: a GGUF file, or all shards of a split one, through huggingface_hub.

The library resumes, honours HF_ENDPOINT, HF_TOKEN and proxies; we choose the file and check its
sum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llamapy.app.pull import Event, Pulled, Step, file_sha256, locked
from llamapy.base.errors import FileError, LlamapyError, UsageError
from llamapy.base.paths import models_dir

NAME = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:\.gguf)?(?::([\w.-]+))?")
SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
DEFAULT_QUANT = "Q4_K_M"


@dataclass(frozen=True, slots=True)
class Remote:
    """A file of the repository; `sha256` is empty where the Hub does not tell."""

    name: str
    size_bytes: int
    sha256: str


def choose(files: list[Remote], quant: str | None) -> list[Remote]:
    """The files of one model. A quant matches as a whole word of the name, case ignored; without
    one Q4_K_M, else the first by name. UsageError listing what there is when nothing matches."""
    models = sorted(
        (f for f in files if f.name.endswith(".gguf") and "mmproj" not in f.name.lower()),
        key=lambda f: f.name,
    )
    if not models:
        raise UsageError("the repository holds no .gguf model")

    def has(f: Remote, word: str) -> bool:
        edge = r"(?<![A-Za-z0-9_]){}(?![A-Za-z0-9_])"
        return re.search(edge.format(re.escape(word)), f.name, re.IGNORECASE) is not None

    found = [f for f in models if has(f, quant or DEFAULT_QUANT)]
    if not found and quant:
        names = ", ".join(f.name for f in models[:12])
        raise UsageError(f"no file for quant '{quant}'; the repository has: {names}")
    first = (found or models)[0]
    if SHARD.search(first.name):
        stem = SHARD.sub("", first.name)
        return [f for f in models if SHARD.sub("", f.name) == stem and SHARD.search(f.name)]
    return [first]


def pull_hub(spec: str) -> Iterator[Event]:
    """Fetch the model `spec` names into `models/hf/USER/REPO`; ends with one `Pulled`."""
    match = NAME.fullmatch(spec)
    if match is None:
        raise UsageError(f"'{spec}' is not of the form hf:USER/REPO or hf:USER/REPO:QUANT")
    repo, quant = match[1], match[2]
    hub = _hub()
    yield Step(f"asking for the files of {repo}")
    folder = models_dir() / "hf" / repo
    with locked(folder):
        paths: list[Path] = []
        files = choose(_files(hub, repo), quant)
        fresh = False
        for file in files:
            path = folder / file.name
            if not _complete(path, file):
                yield Step(f"downloading {file.name} ({file.size_bytes / 1e6:.0f} MB)")
                _fetch(hub, repo, file, folder)
                fresh = True
            paths.append(path)
    yield Pulled(
        paths[0],
        sum(p.stat().st_size for p in paths),
        files[0].sha256 or file_sha256(paths[0]),
        already=not fresh,
    )


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UsageError("hf: needs huggingface_hub: pip install 'llamapy[hf]'") from None
    return huggingface_hub


def _files(hub: Any, repo: str) -> list[Remote]:
    try:
        info = hub.HfApi().model_info(repo, files_metadata=True)
    except Exception as e:  # its own tree, the HTTP library's, and OSError
        raise LlamapyError(f"cannot list {repo}: {_line(e)}") from e
    return [
        Remote(s.rfilename, s.size or 0, getattr(s.lfs, "sha256", "") or "")
        for s in info.siblings or []
    ]


def _fetch(hub: Any, repo: str, file: Remote, folder: Path) -> None:
    try:
        hub.hf_hub_download(repo, file.name, local_dir=folder)
    except Exception as e:
        raise LlamapyError(f"cannot download {file.name} of {repo}: {_line(e)}") from e
    if not _complete(folder / file.name, file):
        (folder / file.name).unlink(missing_ok=True)
        raise FileError(
            f"{file.name}: its sha256 is not the one the Hub gives; removed, pull again"
        )


def _complete(path: Path, file: Remote) -> bool:
    if not path.exists() or (file.size_bytes and path.stat().st_size != file.size_bytes):
        return False
    return not file.sha256 or file_sha256(path) == file.sha256


def _line(e: Exception) -> str:
    text = " ".join(str(e).split()) or type(e).__name__
    return text if len(text) < 300 else text[:297] + "..."
