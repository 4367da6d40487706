"""qwen3vlmoe: of text qwen3moe, all positions of a token being equal."""

from llamapy.models import qwen3moe
from llamapy.models.qwen3moe import decoder, hparams

HANDLES = qwen3moe.HANDLES | {"rope.dimension_sections"}

__all__ = ["HANDLES", "decoder", "hparams"]
