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
from llamapy.models.blocks.linear import linear, vector
from llamapy.models.blocks.norm import norm
from llamapy.models.builder import Builder
from llamapy.models.gemma4 import cache

HANDLES = frozenset(
    {
        "attention.sliding_window",
        "attention.shared_kv_layers",
        "embedding_length_per_layer_input",
    }
)
RANK = 64  # of the branch beside attention
N_OWN_CACHE = 20  # layers from the start that have a cache of their own
N_SPARSE, CUT = 10, 1.6448533535003662  # first layers whose gates keep the largest 5 %
DECODER = replace(SANDWICH, attn=Attn(qk_norm=HEAD, v_norm=True), act="geglu")


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = read_window(file, hp, 5)
    n = count(file, "gemma3n.embedding_length_per_layer_input", 256, 1)
    hp = replace(
        hp,
        embedding_scale=math.sqrt(hp.n_embd),
        attention_scale=1.0,
        final_softcap=hp.final_softcap or 30.0,
        n_embd_per_layer=n,
    )
    return shares_cache(hp, N_OWN_CACHE)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    specs = [*decoder_tensors(DECODER, hp, has), *per_layer.tensors(hp), *altup_tensors(hp)]
    for il in range(hp.n_layer):
        for name, ne in (("laurel_l", (hp.n_embd, RANK)), ("laurel_r", (RANK, hp.n_embd))):
            specs.append(TensorSpec(f"blk.{il}.{name}.weight", ne, il, "layer"))
        specs.append(vector(il, "laurel_post_norm.weight", hp.n_embd))
    return specs


def _scaled(x: Tensor, scale: float) -> Tensor:
    return make("scale", x, scale=scale, bias=0.0)


def _ffn(g: Builder, il: int, x: Tensor) -> Tensor:
    up, gate = linear(g, il, "ffn_up", x), linear(g, il, "ffn_gate", x)
    if il < N_SPARSE:
        n = gate.ne[0]
        mean = _scaled(make("sum_rows", gate), 1.0 / n)
        off = make("sub", gate, mean)
        spread = _scaled(make("sum_rows", make("sqr", off)), 1.0 / (n - 1))
        gate = make("relu", make("sub", off, _scaled(make("sqrt", spread), CUT)))
    return linear(g, il, "ffn_down", make("geglu", gate, up))


def _layer(g: Builder, il: int, streams: list[Tensor], own: Tensor) -> list[Tensor]:
    predicted = predict(g, il, streams)
    active = predicted[0]
    x = norm(g, RMS, active, "attn_norm", "attn_norm", il)
    low = make("mul_mat", g.layer(il, "laurel_l.weight"), x)
    low = make("mul_mat", g.layer(il, "laurel_r.weight"), low)
    low = make("add", norm(g, RMS, low, "laurel_post_norm", "laurel_norm", il), x)
    h = attention(g, il, x, DECODER.attn)
    h = make("add", norm(g, RMS, h, "post_attention_norm", "attn_post_norm", il), active)
    mid = _scaled(make("add", h, low), math.sqrt(0.5))
    h = _ffn(g, il, norm(g, RMS, mid, "ffn_norm", "ffn_norm", il))
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
