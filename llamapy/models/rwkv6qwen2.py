"""rwkv6qwen2: qwen2 whose attention became the time mix of RWKV-6, without its bonus and its norm
of heads, with keys and values that heads share."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.rwkv import build_with_ffn, with_ffn_tensors
from llamapy.models.blocks.rwkv import time_states as states
from llamapy.models.blocks.wkv6 import wkv6, wkv6_tensors
from llamapy.models.builder import Builder
from llamapy.models.rwkv6 import HANDLES, hparams

__all__ = ["HANDLES", "build", "hparams", "states", "tensors"]


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return with_ffn_tensors(hp, has, lambda il: wkv6_tensors(hp, il, has))


def build(g: Builder) -> None:
    build_with_ffn(g, wkv6)
