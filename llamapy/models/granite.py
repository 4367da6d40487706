"""granite: llama with factors for embeddings, attention, residual branches and logits, and a key
that says whether there is rope; with experts granitemoe."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, with_experts
from llamapy.models.blocks import NORMAL, Attn, Decoder

HANDLES = frozenset({"embedding_scale", "residual_scale", "logit_scale", "expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    turns = file.get_bool(f"{hp.arch}.rope.scaling.finetuned", True)
    hp = replace(hp, turns=(turns,) * hp.n_layer)
    shared = f"{hp.arch}.expert_shared_feed_forward_length" in file.keys
    return with_experts(file, read_scales(file, hp), shared=shared)


def decoder(hp: HParams) -> Decoder:
    attn = Attn(rope=NORMAL, rope_at=lambda hp, il: not hp.turns or hp.turns[il], rope_factors=True)
    return Decoder(attn=attn, divide_logits=True)
