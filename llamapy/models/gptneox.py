"""gptneox: layer norms, rope on a part of each head, gelu; side by side unless the file says
otherwise."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import LAYER, Decoder

HANDLES = frozenset({"use_parallel_residual"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, parallel=file.get_bool("gptneox.use_parallel_residual"))


def decoder(hp: HParams) -> Decoder:
    return Decoder(norm=LAYER, parallel=hp.parallel, act="gelu")
