"""apertus: norms of q and k; feed-forward without a gate, by xIELU (arXiv 2411.13010) with numbers
of each layer's own."""

from __future__ import annotations

import math
from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys, wrong
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import HEAD, Attn, Decoder, Part
from llamapy.models.blocks.ffn import ffn_tensors
from llamapy.models.blocks.linear import linear
from llamapy.models.builder import Builder

UNREAD = ("attn_q_norm.bias", "attn_k_norm.bias")
NUMBERS = ("alpha_n", "alpha_p", "beta", "eps")


def hparams(file: Keys, hp: HParams) -> HParams:
    """The file has both slopes before their softplus, the negative side's without beta."""
    rows = [_numbers(file, f"xielu.{name}", hp.n_layer) for name in NUMBERS]
    return replace(
        hp,
        xielu=tuple(
            (beta + _softplus(below), _softplus(above), beta, eps)
            for below, above, beta, eps in zip(*rows, strict=True)
        ),
    )


def _numbers(file: Keys, key: str, n_layer: int) -> list[float]:
    values = [float(x) for x in file.per_layer(key, n_layer)]
    if not all(map(math.isfinite, values)):
        raise wrong(file, key, "finite numbers", values[:5])
    return values


def _softplus(x: float) -> float:
    return x if x > 20.0 else math.log1p(math.exp(x))


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    return ffn_tensors(hp, il, "xielu", has)


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    below, above, beta, eps = g.hp.xielu[il]
    up = linear(g, il, "ffn_up", x)
    h = make("xielu", up, alpha_n=below, alpha_p=above, beta=beta, eps=eps)
    return linear(g, il, "ffn_down", g.name(h, "ffn_act", il))


def decoder(hp: HParams) -> Decoder:
    part = Part(_tensors, _build)
    return Decoder(attn=Attn(qk_norm=HEAD, rope_factors=True), ffn=lambda hp, il: part)
