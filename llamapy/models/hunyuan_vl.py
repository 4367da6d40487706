"""hunyuan_vl: of text, hunyuan-dense."""

from llamapy.models.hunyuan_dense import decoder

HANDLES = frozenset({"rope.dimension_sections"})

__all__ = ["HANDLES", "decoder"]
