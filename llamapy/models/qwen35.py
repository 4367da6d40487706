"""qwen35: qwen3next with a dense feed-forward; heads of v take those of q and k in turns. Of text
all positions of a token are equal."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_recurrent, with_ssm
from llamapy.models import qwen3next
from llamapy.models.blocks import Decoder
from llamapy.models.blocks.gdn import gdn_at
from llamapy.models.qwen3next import states

HANDLES = frozenset({"rope.dimension_sections", "nextn_predict_layers"})

__all__ = ["HANDLES", "decoder", "hparams", "states"]


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_recurrent(file, with_ssm(file, hp, 1), 4)


def decoder(hp: HParams) -> Decoder:
    return replace(qwen3next.decoder(hp), mixer=gdn_at(tiled=True))
