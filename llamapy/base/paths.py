"""Where models lie: the cache folder, and the models known by a short name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from llamapy.base import flags


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model `llamapy pull NAME` can fetch. `file` is its name in the models folder."""

    name: str
    file: str
    size_bytes: int
    sha256: str
    about: str


DEMO = KnownModel(
    "demo",
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    98_362_432,
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "SmolLM2 135M Instruct, Q4_1, 98 MB, Apache-2.0",
)
GEMMA3_270M = KnownModel(
    "gemma3-270m",
    "gemma-3-270m-q4_k_m.gguf",
    253_113_024,
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    "Gemma 3 270M, Q4_K_M, 253 MB, Gemma licence",
)
KNOWN: dict[str, KnownModel] = {m.name: m for m in (DEMO, GEMMA3_270M)}


def cache_dir() -> Path:
    """LLAMAPY_CACHE, else `llamapy` under XDG_CACHE_HOME or ~/.cache. It may not exist yet."""
    own = flags.path("LLAMAPY_CACHE")
    if own:
        return Path(own).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache"
    return base / "llamapy"


def models_dir() -> Path:
    """Where `pull` puts models and where a name is looked up: LLAMAPY_MODELS, else the cache's."""
    own = flags.path("LLAMAPY_MODELS")
    return Path(own).expanduser() if own else cache_dir() / "models"


def find_model(model: KnownModel) -> Path | None:
    """The file of a known model if it is there in full length."""
    path = models_dir() / model.file
    try:
        return path if path.stat().st_size == model.size_bytes else None
    except OSError:
        return None
