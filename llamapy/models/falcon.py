"""falcon: attention and feed-forward side by side after a layer norm, gelu; in the larger member
attention has a norm of its own."""

from __future__ import annotations

from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import LAYER, Attn, Decoder, Part
from llamapy.models.blocks.attn import attention, attention_tensors
from llamapy.models.blocks.norm import norm, norm_tensors
from llamapy.models.builder import Builder


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    second = norm_tensors(hp, "attn_norm_2", il, required=False)
    return second + attention_tensors(hp, il, Attn(), has)


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    if g.maybe_layer(il, "attn_norm_2.weight") is not None:
        x = norm(g, LAYER, layer_input, "attn_norm_2", "attn_norm_2", il)
    return attention(g, il, x, Attn())


def decoder(hp: HParams) -> Decoder:
    attention_part = Part(_tensors, _build)
    return Decoder(
        norm=LAYER, parallel=True, ffn_norm="", act="gelu", mixer=lambda hp, il: attention_part
    )
