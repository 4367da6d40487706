"""glm4moe: experts with a bias of choice and shared experts after dense layers; the second norm
goes by the name of a post-attention norm."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder

HANDLES = frozenset({"expert_count", "rope.dimension_sections", "nextn_predict_layers"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(ffn_norm="post_attention_norm", attn=Attn(qk_norm=HEAD))
