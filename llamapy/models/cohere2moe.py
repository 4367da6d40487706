"""cohere2moe: cohere2 with experts beside attention, averaged with the shared ones; leading dense
layers have rope whether they see a window or not."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, read_window, with_experts
from llamapy.models.blocks import LAYER, NORMAL, RMS, Attn, Decoder, Moe

HANDLES = frozenset(
    {"expert_count", "attention.sliding_window", "logit_scale", "nextn_predict_layers"}
)


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_scales(file, read_window(file, hp, 4, dense_first=True))
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def _has_rope(hp: HParams, il: int) -> bool:
    return hp.is_swa[il] or il < hp.experts.first


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        norm=RMS if hp.norm_rms_eps else LAYER,
        parallel=True,
        ffn_norm="",
        attn=Attn(rope=NORMAL, rope_at=_has_rope, rope_factors=True),
        moe=Moe(sum_scale=0.5),
    )
