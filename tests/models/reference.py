"""The reference models of the architecture tests: two-layer F32 files and the logits they give."""

from __future__ import annotations

import functools
import shutil
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from llamapy.models.registry import known, module_of

DATA = Path(__file__).parent.parent / "data" / "archs"
CORE = ["gemma3-dense", "llama-dense", "mistral3-dense"]  # for laws of cache, devices and batches


@functools.cache
def logits() -> dict[str, np.ndarray]:
    """`tokens` [64], and float32 [64, 128] per model."""
    with np.load(DATA / "logits.npz") as z:
        return {name: z[name] for name in z.files}


FIXTURES = sorted(logits().keys() - {"tokens"})
NAMES = [n for n in FIXTURES if n.rsplit("-", 1)[0] in known()]


# The reference rounds GELU through half-precision tables.
GELU = {
    f"{arch}-dense"
    for arch in (
        "bloom", "codeshell", "falcon", "gemma", "gemma2", "gemma3", "gpt2", "gptneox", "mpt",
        "phi2", "pockettts", "spark2_5", "starcoder", "starcoder2",
    )
} | {"grok-moe"}  # fmt: skip


def tolerance(name: str) -> float:
    return 1e-6 if name in GELU else 1e-8


# Models without order, whose sequences are computed in one go.
WHOLE = {"dream-dense", "llada-dense", "llada-moe-moe", "rnd1-moe"}
# Models that carry states, which do not go back.
RECURRENT = {n for n in NAMES if hasattr(module_of(n.rsplit("-", 1)[0]), "states")}
STEPPED = [n for n in NAMES if n not in WHOLE]


@functools.cache
def _unpacked() -> tempfile.TemporaryDirectory[str]:
    """All models at once: their weights are much alike, so one archive is a third of many."""
    folder = tempfile.TemporaryDirectory(prefix="archs-")
    with tarfile.open(DATA / "models.tar.xz") as archive:
        archive.extractall(folder.name, filter="data")
    return folder


def unpack(name: str, folder: Path) -> Path:
    """The model's file, in `folder`."""
    path = folder / f"{name}.gguf"
    if not path.exists():
        shutil.copyfile(Path(_unpacked().name) / path.name, path)
    return path


def nmse(got: np.ndarray, want: np.ndarray) -> float:
    """Sum of squared differences over the sum of squares, in float64."""
    a, b = want.astype(np.float64), got.astype(np.float64)
    return float(((a - b) ** 2).sum() / (a**2).sum())
