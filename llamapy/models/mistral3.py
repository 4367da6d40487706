"""mistral3: llama's graph. The position temperature of larger members is refused until built."""

from llamapy.models.llama import build, hparams, tensors

__all__ = ["build", "hparams", "tensors"]
