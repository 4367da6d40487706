"""gemma3n: four streams of which attention and feed-forward read one and correct all (AltUp, arXiv
2301.13310), a low-rank branch beside attention, embeddings of each layer's own, sparse activations
in the first layers, last layers that share an earlier one's cache."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, read_window, shares_cache
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import HEAD, RMS, SANDWICH, Attn, per_layer
from llamapy.models.blocks.altup import altup_tensors, correct, merge, predict, spread
from llamapy.models.blocks.attn import attention
from llamapy.models.blocks.decoder import decoder_tensors
from llamapy.models.blocks.ends import embed, head, only_outputs
from llamapy.models.blocks.ffn import ffn, sparse_ffn
from llamapy.models.blocks.laurel import laurel, laurel_tensors
from llamapy.models.blocks.norm import norm
from llamapy.models.builder import Builder
from llamapy.models.caches import sharing as cache

OWN = {"attention.shared_kv_layers", "embedding_length_per_layer_input"}  # Gemma 4's as well
HANDLES = frozenset(OWN) | {"attention.sliding_window"}
N_OWN_CACHE = 20  # layers from the start that have a cache of their own
N_SPARSE, CUT = 10, 1.6448533535003662  # first layers whose gates keep the largest 5 %
DECODER = replace(SANDWICH, attn=Attn(qk_norm=HEAD, v_norm=True), act="geglu")


def with_own(file: Keys, hp: HParams, default: int) -> HParams:
    """`hp` with its scales, and how much of its own each layer gets (a key or `default`)."""
    return replace(
        hp,
        embedding_scale=math.sqrt(hp.n_embd),
        attention_scale=1.0,
        final_softcap=hp.final_softcap or 30.0,
        n_embd_per_layer=count(file, f"{hp.arch}.embedding_length_per_layer_input", default),
    )


def hparams(file: Keys, hp: HParams) -> HParams:
    return shares_cache(with_own(file, read_window(file, hp, 5), 256), N_OWN_CACHE)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    specs = [*decoder_tensors(DECODER, hp, has), *per_layer.tensors(hp), *altup_tensors(hp)]
    return specs + [spec for il in range(hp.n_layer) for spec in laurel_tensors(hp, il)]


def _layer(g: Builder, il: int, streams: list[Tensor], own: Tensor) -> list[Tensor]:
    predicted = predict(g, il, streams)
    active = predicted[0]
    x = norm(g, RMS, active, "attn_norm", "attn_norm", il)
    h = attention(g, il, x, DECODER.attn)
    h = make("add", norm(g, RMS, h, "post_attention_norm", "attn_post_norm", il), active)
    mid = make("scale", make("add", h, laurel(g, il, x)), scale=math.sqrt(0.5), bias=0.0)
    h = norm(g, RMS, mid, "ffn_norm", "ffn_norm", il)
    h = sparse_ffn(g, il, h, "geglu", CUT) if il < N_SPARSE else ffn(g, il, h, "geglu")
    made = make("add", norm(g, RMS, h, "post_ffw_norm", "ffn_post_norm", il), mid)
    first, *rest = correct(g, il, predicted, made)
    scaled = make("mul", first, g.layer(il, "altup_correct_scale.weight"))
    more = per_layer.branch(g, il, scaled, own)
    return [first, *(make("add", r, more) for r in rest)]


def build(g: Builder) -> None:
    x = embed(g, scale=g.hp.embedding_scale)
    own = per_layer.inputs(g, x)
    streams = spread(g, x)
    for il in range(g.hp.n_layer):
        streams = _layer(g, il, streams, per_layer.of_layer(own, il))
    head(g, merge(g, only_outputs(g, *streams)))


__all__ = ["HANDLES", "build", "cache", "hparams", "tensors"]
