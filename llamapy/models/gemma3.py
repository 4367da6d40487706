"""gemma3: sandwich norms, norm on q and k, window layers with a rope base of their own, geglu.

Five window layers, then a full one; the embedding is scaled by sqrt(n_embd) (the file's norm
weights already hold the `1 +` of the model card).
"""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.loader.hparams import HParams, Keys, count, positive_real, swa_pattern
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks import attention, embed, ffn_gated, head, only_outputs, rms_norm
from llamapy.models.blocks.attn import NEOX, attention_tensors
from llamapy.models.blocks.ends import end_tensors
from llamapy.models.blocks.ffn import ffn_gated_tensors
from llamapy.models.blocks.linear import vector
from llamapy.models.builder import Builder

HANDLES = frozenset({"attention.sliding_window"})
N_LAYER_27B = 62  # the one size that scales q by its width per head instead of the head size


def hparams(file: Keys, hp: HParams) -> HParams:
    n_swa = count(file, "gemma3.attention.sliding_window", 0)
    base = positive_real(file, "gemma3.rope.freq_base_swa", 10000.0)
    scale = hp.n_embd // hp.n_head[0] if hp.n_layer == N_LAYER_27B else hp.n_embd_head_k
    return replace(
        hp,
        n_swa=n_swa,
        is_swa=swa_pattern(file, hp, 6) if n_swa else (False,) * hp.n_layer,
        rope_swa=replace(hp.rope, freq_base=base, freq_scale=1.0, scaling="none", ext_factor=0.0),
        attention_scale=hp.attention_scale or 1.0 / math.sqrt(scale),
    )


def tensors(hp: HParams) -> list[TensorSpec]:
    specs = end_tensors(hp)
    for il in range(hp.n_layer):
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            specs.append(vector(il, f"{name}.weight", hp.n_embd))
        for name in ("attn_q_norm", "attn_k_norm"):
            specs.append(vector(il, f"{name}.weight", hp.n_embd_head_k))
        specs += attention_tensors(hp, il)
        specs += ffn_gated_tensors(hp, il)
    return specs


def build(g: Builder) -> None:
    x = embed(g, scale=math.sqrt(g.hp.n_embd))  # [n_embd, n_tokens]
    for il in range(g.hp.n_layer):
        h = rms_norm(g, x, g.layer(il, "attn_norm.weight"), "attn_norm", il)
        h = attention(g, il, h, rope_mode=NEOX, qk_norm=True)
        if il == g.hp.n_layer - 1:
            x, h = only_outputs(g, x, h)  # [n_embd, n_outputs]
        h = rms_norm(g, h, g.layer(il, "post_attention_norm.weight"), "attn_post_norm", il)
        x = g.name(make("add", h, x), "sa_out", il)
        h = rms_norm(g, x, g.layer(il, "ffn_norm.weight"), "ffn_norm", il)
        h = ffn_gated(g, il, h, "geglu")
        h = rms_norm(g, h, g.layer(il, "post_ffw_norm.weight"), "ffn_post_norm", il)
        x = g.name(make("add", h, x), "l_out", il)
    head(g, x)
