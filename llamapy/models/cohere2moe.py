"""cohere2moe: cohere2 with experts and shared experts beside attention."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, read_window, with_experts
from llamapy.models.blocks import LAYER, NORMAL, RMS, Attn, Decoder, window_only

HANDLES = frozenset(
    {"expert_count", "attention.sliding_window", "logit_scale", "nextn_predict_layers"}
)


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_scales(file, read_window(file, hp, 4, dense_first=True))
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        norm=RMS if hp.norm_rms_eps else LAYER,
        parallel=True,
        ffn_norm="",
        attn=Attn(rope=NORMAL, rope_at=window_only),
    )
