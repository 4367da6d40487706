"""qwen: pre-norm decoder, q, k and v in one matrix with a bias; feed_forward_length counts gate and
up."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, n_ff=tuple(n // 2 for n in hp.n_ff))


def decoder(hp: HParams) -> Decoder:
    return Decoder()
