"""refact: llama with ALiBi instead of the rope. Its graph has neither the biases nor the experts
that llama's files may have: in the place of a feed-forward of experts it applies silu alone, as the
reference does."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_experts
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import Attn, Decoder, Part
from llamapy.models.builder import Builder

HANDLES = frozenset({"expert_count"})
UNREAD = ("attn_output.bias", "rope_freqs.weight", "ffn_gate_inp.weight") + tuple(
    f"ffn_{x}{end}" for x in ("gate", "up", "down") for end in (".bias", "_exps.weight")
)


def hparams(file: Keys, hp: HParams) -> HParams:
    return replace(with_experts(file, hp), max_alibi_bias=8.0)


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    return []


def _silu(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    return make("silu", x)


def _ffn(hp: HParams, il: int) -> Part | None:
    return Part(_tensors, _silu) if hp.experts.has(il) else None


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=None), ffn=_ffn)
