"""mistral3: llama's graph. The position temperature of larger members is refused until built."""

from __future__ import annotations

from llamapy.base.errors import FileError
from llamapy.loader.hparams import HParams, Keys
from llamapy.models.llama import build, tensors
from llamapy.models.llama import hparams as llama_hparams

__all__ = ["build", "hparams", "tensors"]


def hparams(file: Keys, hp: HParams) -> HParams:
    for key in ("attention.temperature_scale", "rope.scaling.yarn_log_multiplier"):
        if file.keys.get(f"mistral3.{key}", 0.0):
            raise FileError(f"{file.path}: key mistral3.{key} is not supported yet")
    return llama_hparams(file, hp)
