"""qwen3next: three layers of four are gated delta nets; attention with norms of q and k and a gate
that comes with q; experts with a gated shared one."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts, with_recurrent, with_ssm
from llamapy.models.blocks import HEAD, Attn, Decoder
from llamapy.models.blocks.gdn import gdn_at
from llamapy.models.blocks.gdn import gdn_states as states

HANDLES = frozenset({"expert_count", "nextn_predict_layers"})
UNREAD = ("ssm_in.weight",)

__all__ = ["HANDLES", "decoder", "hparams", "states"]


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_recurrent(file, with_ssm(file, with_experts(file, hp, shared=True), 1), 4)


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        ffn_norm="post_attention_norm",
        attn=Attn(qk_norm=HEAD, gate="sigmoid", gate_in_q=True),
        mixer=gdn_at(tiled=False),
    )
