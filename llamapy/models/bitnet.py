"""bitnet: further norms of what attention and feed-forward give before their last matrix."""

from __future__ import annotations

from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import Attn, Decoder, Part
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.linear import vector
from llamapy.models.builder import Builder


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    inner = vector(il, "ffn_sub_norm.weight", hp.n_ff[il])
    return [*ffn_tensors(hp, il, "swiglu", has), inner]


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    return ffn(g, il, x, "swiglu")


def decoder(hp: HParams) -> Decoder:
    part = Part(_tensors, _build)
    return Decoder(attn=Attn(sub_norm=True), ffn=lambda hp, il: part)
