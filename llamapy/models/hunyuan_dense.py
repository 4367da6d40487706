"""hunyuan-dense: pre-norm decoder, norms of q and k after the rope."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.models.blocks import HEAD, Attn, Decoder


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(qk_norm=HEAD, norm_last=True))
