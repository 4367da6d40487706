"""pangu-embedded: pre-norm decoder with biases of attention and, in some files, of the output."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import Decoder

UNREAD = ("rope_freqs.weight",)


def decoder(hp: HParams) -> Decoder:
    return Decoder()
