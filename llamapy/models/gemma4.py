"""gemma4: gemma3 without scaling of scores, V normed and, in layers without a matrix for it, made
of K; other head sizes in window layers; last layers that share an earlier one's cache; embeddings
of each layer's own; experts beside the feed-forward in some; what a layer gives is scaled."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, plain_window, shares_cache, with_experts
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import HEAD, SANDWICH, Attn, Decoder, per_layer
from llamapy.models.blocks.beside import BESIDE
from llamapy.models.blocks.decoder import decoder_tensors, layer
from llamapy.models.blocks.ends import embed, head
from llamapy.models.blocks.linear import vector
from llamapy.models.builder import Builder
from llamapy.models.caches import sharing as cache
from llamapy.models.gemma3n import OWN, with_own

HANDLES = frozenset(OWN) | {
    "attention.key_length_swa",
    "attention.sliding_window",
    "attention.value_length_swa",
    "expert_count",
    "rope.dimension_count_swa",
}


def hparams(file: Keys, hp: HParams) -> HParams:
    pre = "gemma4.attention."
    hp = replace(
        with_own(file, plain_window(file, hp, 0), 0),
        n_embd_head_k_swa=count(file, f"{pre}key_length_swa", hp.n_embd_head_k),
        n_embd_head_v_swa=count(file, f"{pre}value_length_swa", hp.n_embd_head_v),
    )
    hp = shares_cache(hp, hp.n_layer - count(file, f"{pre}shared_kv_layers", 0))
    return with_experts(file, hp)


def _decoder(hp: HParams) -> Decoder:
    attn = Attn(
        qk_norm=HEAD, v_norm=True, rope_factors=True, factors_at=lambda hp, il: not hp.is_swa[il]
    )
    beside = BESIDE if hp.experts.n else None
    return replace(SANDWICH, attn=attn, act="geglu", ffn=lambda hp, il: beside)


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
            x = per_layer.added(g, il, x, own, last=last)
        scale = g.maybe_layer(il, "layer_output_scale.weight")
        x = x if scale is None else g.name(make("mul", x, scale), "l_out_scaled", il)
    head(g, x)


__all__ = ["HANDLES", "build", "cache", "hparams", "tensors"]
