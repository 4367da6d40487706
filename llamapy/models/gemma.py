"""gemma: rms norms, rope on halves, geglu, embeddings times sqrt(n_embd)."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, embedding_scale=math.sqrt(hp.n_embd))


def decoder(hp: HParams) -> Decoder:
    return Decoder(act="geglu")
