"""mistral4: deepseek2's graph."""

from llamapy.models.deepseek2 import HANDLES, cache, decoder, hparams

__all__ = ["HANDLES", "cache", "decoder", "hparams"]
