"""llama: pre-norm decoder, rope on adjacent pairs, swiglu; with experts it is Mixtral."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.experts import read_experts
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, experts=read_experts(file, hp.arch, hp.n_ff[0]))


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL, rope_factors="rope_freqs.weight"))
