"""llama: pre-norm decoder, grouped attention with rope on adjacent pairs, swiglu feed-forward."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.loader.hparams import HParams, Keys
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks import attention, embed, ffn_gated, head, only_outputs, rms_norm
from llamapy.models.blocks.attn import NORMAL, attention_tensors
from llamapy.models.blocks.ends import end_tensors
from llamapy.models.blocks.ffn import ffn_gated_tensors
from llamapy.models.blocks.linear import vector
from llamapy.models.builder import Builder


def hparams(file: Keys, hp: HParams) -> HParams:
    return hp


def tensors(hp: HParams) -> list[TensorSpec]:
    specs = end_tensors(hp)
    # Llama 3's frequency factors: one tensor for all layers.
    specs.append(
        TensorSpec("rope_freqs.weight", (hp.n_rot // 2,), 0, "layer", required=False, op="rope")
    )
    for il in range(hp.n_layer):
        specs.append(vector(il, "attn_norm.weight", hp.n_embd))
        specs += attention_tensors(hp, il)
        specs.append(vector(il, "ffn_norm.weight", hp.n_embd))
        specs += ffn_gated_tensors(hp, il)
    return specs


def build(g: Builder) -> None:
    x = embed(g)  # [n_embd, n_tokens]
    factors = g.maybe("rope_freqs.weight")
    for il in range(g.hp.n_layer):
        h = rms_norm(g, x, g.layer(il, "attn_norm.weight"), "attn_norm", il)
        h = attention(g, il, h, rope_mode=NORMAL, rope_factors=factors)
        if il == g.hp.n_layer - 1:
            x, h = only_outputs(g, x, h)  # [n_embd, n_outputs]
        x = g.name(make("add", h, x), "ffn_inp", il)
        h = rms_norm(g, x, g.layer(il, "ffn_norm.weight"), "ffn_norm", il)
        x = g.name(make("add", ffn_gated(g, il, h, "swiglu"), x), "l_out", il)
    head(g, x)
