"""maple: norms of q and k, rope in window layers alone, experts with a clamped gate."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_window, with_experts
from llamapy.models.blocks import HEAD, Attn, Decoder, Moe

HANDLES = frozenset({"expert_count", "attention.sliding_window", "swiglu_clamp_exp"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 0)
    return with_experts(file, hp)


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        attn=Attn(qk_norm=HEAD, rope_at=lambda hp, il: hp.is_swa[il]), moe=Moe(clamp_first=True)
    )
