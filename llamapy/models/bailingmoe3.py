"""bailingmoe3: Kimi delta attention with a bounded decay, in some layers latent attention with a
gate for each head; experts with a bias of choice, limits and shared experts after dense layers."""

from __future__ import annotations

from llamapy.loader.bounded import Keys, wrong
from llamapy.loader.hparams import HParams, with_experts, with_kda, with_mla
from llamapy.models.blocks import NEOX, NORMAL, Attn, Decoder
from llamapy.models.blocks.kda import KdaMixer
from llamapy.models.blocks.kda import kda_states as states
from llamapy.models.blocks.mla import MlaAttention
from llamapy.models.blocks.mla import mla_cache as cache
from llamapy.models.deepseek2 import MLA_KEYS
from llamapy.models.kimi_linear import mixers

HANDLES = MLA_KEYS | {
    "expert_count",
    "nextn_predict_layers",
    "rope.dimension_sections",
    "swiglu_clamp_exp",
    "swiglu_clamp_shexp",
}
UNREAD = ("attn_q.bias", "attn_k.bias", "attn_v.bias")


def hparams(file: Keys, hp: HParams) -> HParams:
    if not file.get_bool("bailingmoe3.kda.safe_gate", True):
        raise wrong(file, "bailingmoe3.kda.safe_gate", "true: a bounded decay", False)
    hp = with_experts(file, hp, normalise=False, first=None, shared=True)
    return with_kda(file, with_mla(file, hp))


def decoder(hp: HParams) -> Decoder:
    rope = NEOX if any(hp.rope.sections) else NORMAL
    return mixers(KdaMixer(), MlaAttention(Attn(rope=rope, gate="sigmoid")))


__all__ = ["HANDLES", "UNREAD", "cache", "decoder", "hparams", "states"]
