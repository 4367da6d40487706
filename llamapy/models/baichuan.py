"""baichuan: llama; no key says where a token stands: the size of 32 layers has rope, that of 40
ALiBi, any other nothing."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import NORMAL, Attn, Decoder

N_LAYER_7B, N_LAYER_13B = 32, 40


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, max_alibi_bias=8.0) if hp.n_layer == N_LAYER_13B else hp


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL if hp.n_layer == N_LAYER_7B else None))
