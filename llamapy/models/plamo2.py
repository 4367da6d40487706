"""plamo2: norms around both parts of a layer; layers without heads have Mamba with step sizes, A
and D by head, gate and input side by side in each head; norms of q and k by head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ssm
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import HEADS, SANDWICH, Attn, Decoder, Part, headless
from llamapy.models.blocks.conv import conv_tensors, convolve
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.mamba import mamba2_state, select, select_norms, steps_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import without_heads

HANDLES = frozenset({"attention.head_count_kv"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_ssm(file, hp, 0)


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, mamba2_state(hp))


def _n_dt(hp: HParams) -> int:
    """What step sizes are made from."""
    return max(64, hp.n_embd // 16)


def _tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    s, n, n_dt = hp.ssm, hp.n_embd, _n_dt(hp)
    return [
        *linear_tensors(il, "ssm_in", n, 2 * s.d_inner),
        *conv_tensors(il, "ssm_conv1d", s.d_conv, s.d_inner),
        *linear_tensors(il, "ssm_x", s.d_inner, n_dt + 2 * s.d_state),
        *steps_tensors(il, n_dt, s.dt_rank),
        *linear_tensors(il, "ssm_out", s.d_inner, n),
        vector(il, "ssm_a", s.dt_rank, op="ssm_scan"),
        vector(il, "ssm_d", s.dt_rank),
        *select_norms(hp, il, n_dt, has),
    ]


def _build(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    s, n = g.hp.ssm, x.ne[1]
    by_head = reshape(linear(g, il, "ssm_in", x), 2 * s.d_head, s.dt_rank, n)
    z, h = (
        view(by_head, (s.d_head, s.dt_rank, n), by_head.nb[1:3], 4 * first)
        for first in (0, s.d_head)
    )
    h = reshape(make("cpy", h, type="f32"), s.d_inner, n)
    h = make("silu", convolve(g, il, "ssm_conv1d", h))
    return linear(g, il, "ssm_out", select(g, il, h, z, _n_dt(g.hp), dt_last=True))


def decoder(hp: HParams) -> Decoder:
    return replace(SANDWICH, attn=Attn(qk_norm=HEADS), mixer=headless(Part(_tensors, _build)))
