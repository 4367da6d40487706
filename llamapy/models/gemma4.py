"""gemma4: gemma3 without scaling of scores, V normed and, in layers without a matrix for it, made
of K; other head sizes in window layers; last layers that share an earlier one's cache; embeddings
of each layer's own; experts beside the feed-forward in some; what a layer gives is scaled."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, plain_window, shares_cache, with_experts
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import HEAD, RMS, SANDWICH, Attn, Decoder, Moe, Part, per_layer
from llamapy.models.blocks.decoder import decoder_tensors, layer
from llamapy.models.blocks.ends import embed, head, only_outputs
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.moe import experts, moe_tensors, route
from llamapy.models.blocks.norm import norm, norm_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import attention_cache

HANDLES = frozenset(
    {
        "attention.key_length_swa",
        "attention.shared_kv_layers",
        "attention.sliding_window",
        "attention.value_length_swa",
        "embedding_length_per_layer_input",
        "expert_count",
        "rope.dimension_count_swa",
    }
)
MOE = Moe(act="geglu")


def hparams(file: Keys, hp: HParams) -> HParams:
    pre = "gemma4.attention."
    hp = plain_window(file, hp, 0)
    hp = replace(
        hp,
        embedding_scale=math.sqrt(hp.n_embd),
        attention_scale=1.0,
        final_softcap=hp.final_softcap or 30.0,
        n_embd_head_k_swa=count(file, f"{pre}key_length_swa", hp.n_embd_head_k),
        n_embd_head_v_swa=count(file, f"{pre}value_length_swa", hp.n_embd_head_v),
        n_embd_per_layer=count(file, "gemma4.embedding_length_per_layer_input", 0),
    )
    hp = shares_cache(hp, hp.n_layer - count(file, f"{pre}shared_kv_layers", 0))
    return with_experts(file, hp)


def cache(hp: HParams) -> CacheShape:
    return replace(attention_cache(hp), share=hp.share)


def _beside_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    norms = ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")
    return [
        *ffn_tensors(hp, il, "geglu", has),
        *moe_tensors(hp, il, "geglu", has),
        *(spec for name in norms for spec in norm_tensors(hp, name, il)),
        vector(il, "ffn_gate_inp.scale", hp.n_embd),
    ]


def _beside(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    """The feed-forward of x, and experts that read what it is the norm of, through norms of their
    own."""
    n = g.hp.n_embd
    dense = norm(g, RMS, ffn(g, il, x, "geglu"), "post_ffw_norm_1", "ffn_post_norm_1", il)
    mid = g.mid
    scaled = make("rms_norm", mid, eps=g.hp.norm_rms_eps)
    scaled = make("scale", scaled, scale=n**-0.5, bias=0.0)
    ids, w = route(g, il, make("mul", scaled, g.layer(il, "ffn_gate_inp.scale")), MOE)
    h = norm(g, RMS, mid, "pre_ffw_norm_2", "ffn_pre_norm_2", il)
    routed = experts(g, il, h, ids, w, MOE)
    return make("add", dense, norm(g, RMS, routed, "post_ffw_norm_2", "ffn_post_norm_2", il))


def _decoder(hp: HParams) -> Decoder:
    attn = Attn(
        qk_norm=HEAD, v_norm=True, rope_factors=True, factors_at=lambda hp, il: not hp.is_swa[il]
    )
    beside = Part(_beside_tensors, _beside)
    return replace(
        SANDWICH, attn=attn, act="geglu", ffn=lambda hp, il: beside if hp.experts.n else None
    )


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    scales = [
        vector(il, "layer_output_scale.weight", 1, required=False) for il in range(hp.n_layer)
    ]
    own = per_layer.tensors(hp) if hp.n_embd_per_layer else []
    return [*decoder_tensors(_decoder(hp), hp, has), *scales, *own]


def build(g: Builder) -> None:
    d, hp = _decoder(g.hp), g.hp
    x = embed(g, scale=hp.embedding_scale)
    own = per_layer.inputs(g, x) if hp.n_embd_per_layer else None
    for il in range(hp.n_layer):
        last = il == hp.n_layer - 1
        x = layer(g, d, il, x, last=last)
        if own is not None:
            part = per_layer.of_layer(own, il)
            part = only_outputs(g, part)[0] if last else part
            x = make("add", x, per_layer.branch(g, il, x, part))
        scale = g.maybe_layer(il, "layer_output_scale.weight")
        x = x if scale is None else g.name(make("mul", x, scale), "l_out_scaled", il)
    head(g, x)
