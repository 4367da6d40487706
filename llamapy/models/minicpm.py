"""minicpm: granite with factors that its files leave out."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models import granite
from llamapy.models.blocks import Decoder

HANDLES = granite.HANDLES


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = replace(
        hp,
        embedding_scale=12.0,
        residual_scale=1.4 / math.sqrt(hp.n_layer),
        logit_scale=hp.n_embd / 256.0,
    )
    return replace(granite.hparams(file, hp), turns=())


def decoder(hp: HParams) -> Decoder:
    return granite.decoder(hp)
