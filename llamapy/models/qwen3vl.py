"""qwen3vl: of text, qwen3."""

from llamapy.models.qwen3 import decoder

HANDLES = frozenset({"rope.dimension_sections"})

__all__ = ["HANDLES", "decoder"]
