"""Convolutions over the last few tokens of a sequence, and a mixer that is hardly more than one."""

from __future__ import annotations

from llamapy.graph.ops import make, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.decoder import Part
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.builder import Builder


def part_of(x: Tensor, first: int, *ne: int) -> Tensor:
    """Elements of each token's row from `first` on, as [*ne, n_tokens]. x [n, n_tokens]"""
    return view(x, (*ne, x.ne[1]), (*(4 * ne[0] for _ in ne[1:]), x.nb[1]), 4 * first)


def convolve(g: Builder, il: int, name: str, x: Tensor) -> Tensor:
    """Each channel's last tokens times the taps of `name`, plus a bias where the file has one.
    x [n_channels, n_tokens] -> the same"""
    out = make("ssm_conv", g.state(il, "conv"), x, g.layer(il, f"{name}.weight"), g.runs)
    bias = g.maybe_layer(il, f"{name}.bias")
    return g.name(out if bias is None else make("add", out, bias), name, il)


def conv_tensors(il: int, name: str, taps: int, n: int) -> list[TensorSpec]:
    return [
        vector(il, f"{name}.weight", taps, n, op="ssm_conv"),
        vector(il, f"{name}.bias", n, required=False, op="add"),
    ]


def short_conv_state(hp: HParams) -> States:
    return {"conv": (hp.n_conv - 1, hp.n_embd)}


def _short_conv(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    """LFM2's: gated before and after. x [n_embd, n_tokens] -> the same"""
    rows, n = linear(g, il, "shortconv.in_proj", x), x.ne[0]
    before, after, h = (part_of(rows, i * n, n) for i in range(3))
    h = convolve(g, il, "shortconv.conv", make("mul", before, h))
    return linear(g, il, "shortconv.out_proj", make("mul", after, h))


def _short_conv_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    n = hp.n_embd
    return [
        *linear_tensors(il, "shortconv.in_proj", n, 3 * n),
        *conv_tensors(il, "shortconv.conv", hp.n_conv, n),
        *linear_tensors(il, "shortconv.out_proj", n, n),
    ]


SHORT_CONV = Part(_short_conv_tensors, _short_conv)
