"""muse-glimmer: embeddings normed, norms around both parts of a layer and of q and k, gated
attention, rope in window layers alone, logits scaled and capped."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, read_window
from llamapy.models.blocks import BARE, HEAD, NORMAL, SANDWICH, Attn, Decoder

HANDLES = frozenset({"attention.sliding_window", "logit_scale"})


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = replace(hp, final_softcap=hp.final_softcap or 30.0)
    return read_scales(file, read_window(file, hp, 4))


def decoder(hp: HParams) -> Decoder:
    return replace(
        SANDWICH,
        embd_norm=BARE,
        post_eps=1e-8,
        attn=Attn(rope=NORMAL, rope_at=lambda hp, il: hp.is_swa[il], qk_norm=HEAD, gate="sigmoid"),
    )
