"""The reference models of the architecture tests: two-layer F32 files and the logits they give."""

from __future__ import annotations

import functools
import lzma
from pathlib import Path

import numpy as np

from llamapy.models.registry import known

DATA = Path(__file__).parent.parent / "data" / "archs"
FIXTURES = sorted(p.name.removesuffix(".gguf.xz") for p in DATA.glob("*.gguf.xz"))
NAMES = [n for n in FIXTURES if n.rsplit("-", 1)[0].replace("-", "_") in known()]
GELU = {"gemma3-dense", "gpt2-dense"}  # the reference rounds GELU through half-precision tables


@functools.cache
def logits() -> dict[str, np.ndarray]:
    """`tokens` [64], and float32 [64, 128] per model."""
    with np.load(DATA / "logits.npz") as z:
        return {name: z[name] for name in z.files}


def unpack(name: str, folder: Path) -> Path:
    path = folder / f"{name}.gguf"
    if not path.exists():
        path.write_bytes(lzma.decompress((DATA / f"{name}.gguf.xz").read_bytes()))
    return path


def nmse(got: np.ndarray, want: np.ndarray) -> float:
    """Sum of squared differences over the sum of squares, in float64."""
    a, b = want.astype(np.float64), got.astype(np.float64)
    return float(((a - b) ** 2).sum() / (a**2).sum())
