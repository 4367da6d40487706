"""chameleon: heads of q and k normed each with a weight of its own; tokens of images are never the
answer. Of its two placements of norms, that before attention and feed-forward."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams
from llamapy.models.blocks import HEADS, LAYER, NORMAL, Attn, Decoder

IMAGES = range(4, 8196)  # ids of their tokens


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(hp, norm_eps=1e-5)


def decoder(hp: HParams) -> Decoder:
    attn = Attn(rope=NORMAL, qk_norm=HEADS, qk_kind=LAYER)
    return Decoder(attn=attn, never=IMAGES)
