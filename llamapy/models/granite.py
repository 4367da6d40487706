"""granite: llama with factors for embeddings, attention, residual branches and logits; with experts
granitemoe."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.experts import read_experts
from llamapy.loader.hparams import HParams, read_scales
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"embedding_scale", "residual_scale", "logit_scale", "expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    shared = "granite.expert_shared_feed_forward_length".replace("granite", hp.arch) in file.keys
    experts = read_experts(file, hp.arch, hp.n_ff[0], shared=shared)
    return replace(read_scales(file, hp), experts=experts)


def decoder(hp: HParams) -> Decoder:
    attn = Attn(rope=NORMAL, rope_factors="rope_freqs.weight")
    return Decoder(attn=attn, divide_logits=True)
