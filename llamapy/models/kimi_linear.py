"""kimi-linear: Kimi delta attention, in some layers latent attention without rope; experts with a
bias of choice and shared experts after dense layers. Layers without heads are the former."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts, with_kda, with_mla
from llamapy.models.blocks import Attn, Decoder, Part
from llamapy.models.blocks.kda import KdaMixer
from llamapy.models.blocks.kda import kda_states as states
from llamapy.models.blocks.mla import MlaAttention
from llamapy.models.blocks.mla import mla_cache as cache
from llamapy.models.deepseek2 import MLA_KEYS

HANDLES = MLA_KEYS | {"expert_count"}
UNREAD = ("attn_q.bias", "attn_k.bias", "attn_v.bias")


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = with_experts(file, hp, normalise=True, first=None, shared=True)
    return with_kda(file, with_mla(file, hp))


def mixers(kda: KdaMixer, mla: MlaAttention) -> Decoder:
    parts = (Part(kda.tensors, kda.build), Part(mla.tensors, mla.build))
    return Decoder(mixer=lambda hp, il: parts[hp.n_head_kv[il] > 0])


def decoder(hp: HParams) -> Decoder:
    return mixers(KdaMixer(), MlaAttention(Attn(rope=None)))


__all__ = ["HANDLES", "UNREAD", "cache", "decoder", "hparams", "states"]
