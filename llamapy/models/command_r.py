"""command-r: attention and feed-forward side by side after one layer norm, norms of q and k in its
larger member, logits scaled."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales
from llamapy.models.blocks import HEADS, LAYER, NORMAL, Attn, Decoder

HANDLES = frozenset({"logit_scale"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return read_scales(file, hp)


def decoder(hp: HParams) -> Decoder:
    attn = Attn(rope=NORMAL, qk_norm=HEADS, qk_kind=LAYER)
    return Decoder(norm=LAYER, parallel=True, ffn_norm="", attn=attn)
