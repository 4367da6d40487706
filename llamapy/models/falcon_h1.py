"""falcon-h1: attention and Mamba-2 side by side in every layer, both after the same norm."""

from __future__ import annotations

from collections.abc import Sequence

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ssm
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import Attn, Decoder, Part
from llamapy.models.blocks.attn import attention, attention_tensors
from llamapy.models.blocks.mamba import mamba2, mamba2_state, mamba2_tensors
from llamapy.models.builder import Builder

ATTN = Attn()
UNREAD = ("attn_output.bias", "rope_freqs.weight")


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_ssm(file, hp, 1)


def states(hp: HParams) -> Sequence[States]:
    return (mamba2_state(hp),) * hp.n_layer


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    return attention_tensors(hp, il, ATTN, has) + mamba2_tensors(hp, il, has)


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    return make("add", attention(g, il, x, ATTN), mamba2(g, il, x, layer_input))


def decoder(hp: HParams) -> Decoder:
    return Decoder(mixer=lambda hp, il: Part(_tensors, _build))
