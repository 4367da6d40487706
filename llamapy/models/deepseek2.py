"""deepseek2: latent attention; experts in groups with a bias of choice and shared experts after
dense layers. Its small members do not compress q."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts, with_mla
from llamapy.models.blocks import NORMAL, Attn, Decoder, Part
from llamapy.models.blocks.mla import MlaAttention
from llamapy.models.blocks.mla import mla_cache as cache

MLA_KEYS = frozenset(
    f"attention.{key}"
    for key in ("q_lora_rank", "kv_lora_rank", "key_length_mla", "value_length_mla")
)
HANDLES = MLA_KEYS | {
    "expert_count",
    "nextn_predict_layers",
    "rope.scaling.yarn_log_multiplier",
}
N_LAYER_GLM, N_VOCAB_GLM = (47, 48), 154880  # GLM 4.7 Lite, whose files do not name the gating


def hparams(file: Keys, hp: HParams) -> HParams:
    glm = hp.n_layer in N_LAYER_GLM and hp.n_vocab == N_VOCAB_GLM
    gating = "sigmoid" if glm else "softmax"
    hp = with_experts(file, hp, gating=gating, normalise=False, first=None, shared=True)
    return with_mla(file, hp)


def decoder(hp: HParams) -> Decoder:
    attention = MlaAttention(Attn(rope=NORMAL))
    part = Part(attention.tensors, attention.build)
    return Decoder(attn=attention.attn, mixer=lambda hp, il: part)


__all__ = ["HANDLES", "cache", "decoder", "hparams"]
