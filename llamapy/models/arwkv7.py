"""arwkv7: qwen2 whose attention became the time mix of RWKV-7, in some without its gate or its norm
of heads."""

from __future__ import annotations

from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.rwkv import build_with_ffn, with_ffn_tensors
from llamapy.models.blocks.rwkv import time_states as states
from llamapy.models.blocks.wkv7 import wkv7, wkv7_tensors
from llamapy.models.builder import Builder
from llamapy.models.rwkv7 import HANDLES, hparams

__all__ = ["HANDLES", "build", "hparams", "states", "tensors"]


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    def layer(il: int) -> list[TensorSpec]:
        gated = has(f"blk.{il}.time_mix_g1.weight")
        ends = ("weight", "bias")
        norms = [vector(il, f"time_mix_ln.{e}", hp.n_embd, required=False) for e in ends]
        return wkv7_tensors(hp, il, gated=gated) + norms

    return with_ffn_tensors(hp, has, layer)


def build(g: Builder) -> None:
    build_with_ffn(g, wkv7)
