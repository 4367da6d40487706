"""step35: window layers with other heads and a rope base of their own, the others turn half as much
of a head; gates by head, experts with a bias of choice, limits and a shared expert in some
layers."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys, count, wrong
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder

HANDLES = frozenset(
    {
        "attention.sliding_window",
        "expert_count",
        "nextn_predict_layers",
        "rope.dimension_count_swa",
        "swiglu_clamp_exp",
        "swiglu_clamp_shexp",
    }
)


def hparams(file: Keys, hp: HParams) -> HParams:
    if hp.n_rot % 4:
        raise wrong(file, "step35.rope.dimension_count", "a multiple of 4", hp.n_rot)
    n_rot = count(file, "step35.rope.dimension_count_swa", hp.n_rot, 2)
    hp = replace(read_window(file, hp, 0), n_rot=hp.n_rot // 2, n_rot_swa=n_rot)
    return with_experts(file, hp, gating="sigmoid", normalise=False, first=None, shared=True)


def decoder(hp: HParams) -> Decoder:
    attn = Attn(
        qk_norm=HEAD,
        gate="sigmoid",
        rope_factors=True,
        factors_at=lambda hp, il: not hp.is_swa[il],
    )
    return Decoder(attn=attn)
