"""maincoder: llama with norms of q and k after the rope."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import HEAD, NORMAL, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL, qk_norm=HEAD, norm_last=True))
