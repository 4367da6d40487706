"""grok: norms around both parts of a layer, caps of attention and router, gelu experts, in some
with a dense feed-forward beside them: their sum over sqrt(2)."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, with_experts
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import Attn, Decoder, Moe, Part
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.moe import moe_ffn, moe_tensors
from llamapy.models.builder import Builder

HANDLES = frozenset({"expert_count", "embedding_scale", "logit_scale", "attention.output_scale"})


def hparams(file: Keys, hp: HParams) -> HParams:
    """Defaults are Grok-1's, whose files say nothing."""
    scale = file.get_float("grok.attention.output_scale", 0.08838834764831845)
    hp = replace(
        hp,
        embedding_scale=78.38367176906169,
        logit_scale=0.5773502691896257,
        attention_scale=scale,
        attn_softcap=hp.attn_softcap or 30.0,
    )
    return with_experts(file, read_scales(file, hp))


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    dense = has(f"blk.{il}.ffn_up.weight")
    return [
        *moe_tensors(hp, il, "geglu", has),
        *(ffn_tensors(hp, il, "geglu", has) if dense else []),
    ]


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    out = moe_ffn(g, il, x, Moe(act="geglu"))
    if g.maybe_layer(il, "ffn_up.weight") is None:
        return out
    both = make("add", ffn(g, il, x, "geglu"), out)
    return make("scale", both, scale=math.sqrt(2.0) / 2.0, bias=0.0)


def decoder(hp: HParams) -> Decoder:
    return Decoder(
        post_attn_norm="attn_output_norm",
        post_ffn_norm="layer_output_norm",
        attn=Attn(),
        ffn=lambda hp, il: Part(_tensors, _build),
    )
