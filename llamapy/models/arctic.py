"""arctic: a dense feed-forward, and beside it experts that read the layer's input through a norm of
their own."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import NORMAL, RMS, Attn, Decoder, Moe, Part
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.moe import moe_ffn, moe_tensors
from llamapy.models.blocks.norm import norm, norm_tensors
from llamapy.models.builder import Builder

HANDLES = frozenset({"expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_experts(file, hp)


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    return [
        *norm_tensors(hp, "ffn_norm_exps", il),
        *ffn_tensors(hp, il, "swiglu", has, hp.n_embd),
        *moe_tensors(hp, il, "swiglu", has),
    ]


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    dense = ffn(g, il, x, "swiglu")
    h = norm(g, RMS, layer_input, "ffn_norm_exps", "ffn_norm_exps", il)
    return make("add", moe_ffn(g, il, h, Moe()), dense)


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL), ffn=lambda hp, il: Part(_tensors, _build))
