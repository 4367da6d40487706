"""rwkv7: the time mix of that version; the channel mix is a squared relu."""

from __future__ import annotations

from functools import partial

from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams, with_rwkv
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.rwkv import Mixed, build_rwkv, lerp, rwkv_tensors, squared_relu
from llamapy.models.blocks.rwkv import rwkv_states as states
from llamapy.models.blocks.wkv7 import wkv7, wkv7_tensors
from llamapy.models.builder import Builder

HANDLES = frozenset({"attention.head_count", "attention.head_count_kv"})

__all__ = ["HANDLES", "build", "hparams", "states", "tensors"]

hparams = partial(with_rwkv, version=7)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return rwkv_tensors(hp, lambda il: wkv7_tensors(hp, il))


def _channel_mix(g: Builder, il: int, m: Mixed) -> Tensor:
    return squared_relu(g, il, lerp(g, il, "channel_mix_lerp_k", m))


def build(g: Builder) -> None:
    build_rwkv(g, wkv7, _channel_mix)
