"""mistral3: llama's graph. The position temperature of larger members is refused until built."""

from llamapy.models.llama import HANDLES, decoder, hparams

__all__ = ["HANDLES", "decoder", "hparams"]
