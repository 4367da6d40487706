"""rwkv6: the time mix of that version; the channel mix is a squared relu behind a gate; results are
halved every few layers."""

from __future__ import annotations

from functools import partial

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams, with_rwkv
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.rwkv import Mixed, build_rwkv, lerp, rwkv_tensors, squared_relu
from llamapy.models.blocks.rwkv import rwkv_states as states
from llamapy.models.blocks.wkv6 import wkv6, wkv6_tensors
from llamapy.models.builder import Builder

HANDLES = frozenset({"attention.head_count", "attention.head_count_kv"})

__all__ = ["HANDLES", "build", "hparams", "states", "tensors"]

hparams = partial(with_rwkv, version=6)


def _layer(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    return [
        *wkv6_tensors(hp, il, has),
        vector(il, "time_mix_first.weight", *hp.rwkv.heads, op="rwkv_wkv6"),
        vector(il, "channel_mix_lerp_r.weight", hp.n_embd),
        *linear_tensors(il, "channel_mix_receptance", hp.n_embd, hp.n_embd),
    ]


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return rwkv_tensors(hp, lambda il: _layer(hp, il, has))


def _channel_mix(g: Builder, il: int, m: Mixed) -> Tensor:
    gate = linear(g, il, "channel_mix_receptance", lerp(g, il, "channel_mix_lerp_r", m))
    out = squared_relu(g, il, lerp(g, il, "channel_mix_lerp_k", m))
    return make("mul", out, make("sigmoid", gate))


def build(g: Builder) -> None:
    build_rwkv(g, wkv6, _channel_mix)
