"""Selective state spaces in the place of attention: Mamba (Gu and Dao 2023, arXiv 2312.00752) and
Mamba-2 (Dao and Gu 2024, arXiv 2405.21060). What comes in goes through a convolution, then through
a scan over the tokens, and is gated."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.conv import conv_tensors, convolve, part_of
from llamapy.models.blocks.decoder import Part
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import Builder


def mamba_state(hp: HParams) -> States:
    s = hp.ssm
    return {"conv": (s.d_conv - 1, s.d_inner), "ssm": (s.d_state, 1, s.d_inner)}


def mamba2_state(hp: HParams) -> States:
    s = hp.ssm
    return {"conv": (s.d_conv - 1, s.n_mixed), "ssm": (s.d_state, s.d_head, s.dt_rank)}


def scan(g: Builder, il: int, x: Tensor, dt: Tensor, b: Tensor, c: Tensor, z: Tensor) -> Tensor:
    """The scan plus D times its input, gated by z. x and z [d_inner, n_tokens] (z by head if need
    be), dt [n_head, n_tokens], b and c [d_state, n_group, n_tokens] -> [d_inner, n_tokens]"""
    d_inner, n, n_head = x.ne[0], x.ne[1], dt.ne[0]
    d_head = d_inner // n_head
    by_head = view(x, (d_head, n_head, n), (4 * d_head, x.nb[1]))
    a, d = g.layer(il, "ssm_a"), g.layer(il, "ssm_d")
    a = reshape(a, a.n_elements // n_head, n_head)
    y = make("ssm_scan", g.state(il, "ssm"), by_head, dt, a, b, c, g.runs)
    if d_head == 1:
        y = make("add", y, make("mul", x, d))
    else:
        skip = make("mul", by_head, reshape(d, 1, n_head))
        y = make("add", y, reshape(skip, d_inner, n))
    return reshape(make("swiglu", z, reshape(y, *z.ne)), d_inner, n)


def select(
    g: Builder, il: int, x: Tensor, z: Tensor, n_dt: int, *, dt_last: bool = False
) -> Tensor:
    """Mamba's scan, with step sizes, B and C made from x: `ssm_x` gives what the step sizes are
    made from, n_dt numbers, then B and C, or, `dt_last`, the former after them."""
    s = g.hp.ssm
    rows = linear(g, il, "ssm_x", x)
    first = 0 if dt_last else n_dt
    parts = {
        "dt": part_of(rows, 2 * s.d_state if dt_last else 0, n_dt),
        "b": part_of(rows, first, s.d_state, 1),
        "c": part_of(rows, first + s.d_state, s.d_state, 1),
    }
    for name, part in parts.items():
        weight = f"ssm_{name}_norm"
        named = (g.maybe_layer(il, n) for n in (weight, f"{weight}.weight"))
        if s.norms or any(w is not None for w in named):
            parts[name] = norm(g, RMS, part, weight, weight, il)
    return scan(g, il, x, linear(g, il, "ssm_dt", parts["dt"]), parts["b"], parts["c"], z)


def mamba(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    """x [n_embd, n_tokens] -> the same"""
    s = g.hp.ssm
    rows = linear(g, il, "ssm_in", x)
    h = make("silu", convolve(g, il, "ssm_conv1d", part_of(rows, 0, s.d_inner)))
    return linear(
        g, il, "ssm_out", select(g, il, h, part_of(rows, s.d_inner, s.d_inner), s.dt_rank)
    )


def select_norms(hp: HParams, il: int, n_dt: int, has: Has) -> list[TensorSpec]:
    """Of what `select` reads, where the file has them."""
    sizes = {"dt": n_dt, "b": hp.ssm.d_state, "c": hp.ssm.d_state}
    return [
        spec
        for name, n in sizes.items()
        for spec in norm_tensors(hp, f"ssm_{name}_norm", il, (n,), required=False, has=has)
    ]


def steps_tensors(il: int, n_dt: int, n_head: int) -> list[TensorSpec]:
    *others, bias = linear_tensors(il, "ssm_dt", n_dt, n_head)
    return [*others, replace(bias, required=True)]


def mamba_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    s, n = hp.ssm, hp.n_embd
    return [
        *linear_tensors(il, "ssm_in", n, 2 * s.d_inner),
        *conv_tensors(il, "ssm_conv1d", s.d_conv, s.d_inner),
        *linear_tensors(il, "ssm_x", s.d_inner, s.dt_rank + 2 * s.d_state),
        *steps_tensors(il, s.dt_rank, s.d_inner),
        *linear_tensors(il, "ssm_out", s.d_inner, n),
        vector(il, "ssm_a", s.d_state, s.d_inner, op="ssm_scan"),
        vector(il, "ssm_d", s.d_inner),
        *select_norms(hp, il, s.dt_rank, has),
    ]


def mamba2(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    """x [n_embd, n_tokens] -> the same"""
    s, n = g.hp.ssm, x.ne[1]
    rows = linear(g, il, "ssm_in", x)  # z, then what is mixed, then step sizes
    mixed = part_of(rows, s.d_inner, s.n_mixed)
    mixed = make("silu", convolve(g, il, "ssm_conv1d", mixed))  # x, B, C
    b, c = (
        part_of(mixed, s.d_inner + i * s.n_group * s.d_state, s.d_state, s.n_group) for i in (0, 1)
    )
    dt = make("add", part_of(rows, s.d_inner + s.n_mixed, s.dt_rank), g.layer(il, "ssm_dt.bias"))
    y = scan(g, il, part_of(mixed, 0, s.d_inner), dt, b, c, part_of(rows, 0, s.d_inner))
    if g.maybe_layer(il, "ssm_norm.weight") is not None:
        y = reshape(y, s.d_inner // s.n_group, s.n_group, n)
        y = reshape(norm(g, RMS, y, "ssm_norm", "ssm_norm", il), s.d_inner, n)
    return linear(g, il, "ssm_out", y)


def mamba2_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    s, n = hp.ssm, hp.n_embd
    return [
        *linear_tensors(il, "ssm_in", n, s.d_inner + s.n_mixed + s.dt_rank),
        *conv_tensors(il, "ssm_conv1d", s.d_conv, s.n_mixed),
        *linear_tensors(il, "ssm_out", s.d_inner, n),
        vector(il, "ssm_dt.bias", s.dt_rank, op="add"),
        vector(il, "ssm_a", 1, s.dt_rank, op="ssm_scan"),
        vector(il, "ssm_d", 1, s.dt_rank),
        *norm_tensors(hp, "ssm_norm", il, (s.d_inner // s.n_group, s.n_group), required=False),
    ]


MAMBA = Part(mamba_tensors, mamba)
MAMBA2 = Part(mamba2_tensors, mamba2)
