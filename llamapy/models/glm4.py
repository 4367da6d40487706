"""glm4: norms around both parts of a layer, rope on a part of each head, gate and up in one
matrix."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NEOX, NORMAL, SANDWICH, Attn, Decoder

HANDLES = frozenset({"rope.dimension_sections", "nextn_predict_layers"})


def decoder(hp: HParams) -> Decoder:
    """Files of the vision models say sections; of text all positions of a token are equal."""
    return replace(
        SANDWICH,
        attn=Attn(rope=NEOX if any(hp.rope.sections) else NORMAL),
    )
