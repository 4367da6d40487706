"""deepseek32: deepseek2 whose attention looks at chosen tokens in long contexts; here at all, so
that contexts are as long as what would be chosen."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models import deepseek2
from llamapy.models.blocks.chosen import INDEXER as UNREAD
from llamapy.models.blocks.chosen import with_chosen
from llamapy.models.blocks.mla import mla_cache as cache
from llamapy.models.deepseek2 import decoder

HANDLES = deepseek2.HANDLES | {"rope.dimension_sections"}

__all__ = ["HANDLES", "UNREAD", "cache", "decoder", "hparams"]


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_chosen(file, deepseek2.hparams(file, hp))
