"""deci: llama with heads and width by layer: without heads a layer has no attention, without heads
of k and v a matrix in its place, without width no feed-forward."""

from __future__ import annotations

from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import NORMAL, NOTHING, Attn, Decoder, Part
from llamapy.models.blocks.linear import linear, linear_tensors
from llamapy.models.builder import Builder

HANDLES = frozenset({"attention.head_count_kv"})


def _matrix(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    return linear_tensors(il, "attn_output", hp.n_embd, hp.n_embd)


def _multiply(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    return linear(g, il, "attn_output", x)


def _mixer(hp: HParams, il: int) -> Part | None:
    if not hp.n_head[il]:
        return NOTHING
    return None if hp.n_head_kv[il] else Part(_matrix, _multiply)


def _ffn(hp: HParams, il: int) -> Part | None:
    return None if hp.n_ff[il] else NOTHING


def decoder(hp: HParams) -> Decoder:
    return Decoder(attn=Attn(rope=NORMAL, rope_factors=True), mixer=_mixer, ffn=_ffn)
