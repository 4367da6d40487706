"""minimax-01: seven layers of eight are lightning attention (Qin et al. 2024, arXiv 2401.04658):
each head's state forgets by a factor of its own, the slower the later the layer. What a norm gives
is added, times a factor, to what attention or experts made of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales, with_experts, with_recurrent
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks import RMS, Decoder, Part
from llamapy.models.blocks.attn import gated
from llamapy.models.blocks.decoder import decoder_tensors, feed_forward, mixed
from llamapy.models.blocks.ends import embed, head, only_outputs
from llamapy.models.blocks.linear import linear, linear_tensors
from llamapy.models.blocks.norm import norm, norm_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import without_heads

HANDLES = frozenset({"expert_count", "residual_scale"})


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_recurrent(file, with_experts(file, read_scales(file, hp)), 8)


def states(hp: HParams) -> Sequence[States]:
    return without_heads(hp, {"kv": (hp.n_embd_head_k, hp.n_embd_head_v, hp.n_head[0])})


def lightning_tensors(hp: HParams, il: int, has: Has) -> list[TensorSpec]:
    n = hp.n_embd_head_k * hp.n_head[il]
    return [
        *linear_tensors(il, "attn_qkv", hp.n_embd, 3 * n),
        *linear_tensors(il, "attn_gate", hp.n_embd, n),
        *norm_tensors(hp, "attn_norm_2", il, (n,)),
        *linear_tensors(il, "attn_output", n, hp.n_embd),
    ]


def lightning(g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
    """x [n_embd, n_tokens] -> the same"""
    n_head, size = g.hp.n_head[il], g.hp.n_embd_head_k
    rows = make("silu", linear(g, il, "attn_qkv", x))
    rows = reshape(rows, 3 * size, n_head, x.ne[1])
    q, k, v = (view(rows, (size, *rows.ne[1:3]), rows.nb[1:], 4 * size * i) for i in range(3))
    start = 2.0 ** -(8.0 / n_head)
    slope = 1.0 - il / max(g.hp.n_layer - 1, 1) + 1e-5
    decay = [math.exp(-slope * start ** (h + 1)) for h in range(n_head)]
    keep = g.add_input(inputs.constants(f"decay-{il}", decay))
    out = make("gated_linear_attn", g.state(il, "kv"), q, k, v, keep, g.runs, scale=1.0)
    out = norm(g, RMS, reshape(out, size * n_head, x.ne[1]), "attn_norm_2", "attn_norm_2", il)
    return linear(g, il, "attn_output", gated(g, il, out, x, "sigmoid"))


LIGHTNING = Part(lightning_tensors, lightning)
DECODER = Decoder(mixer=lambda hp, il: None if hp.n_head_kv[il] else LIGHTNING)
tensors = partial(decoder_tensors, DECODER)


def build(g: Builder) -> None:
    x, scale = embed(g), g.hp.residual_scale
    for il in range(g.hp.n_layer):
        x = norm(g, RMS, x, "attn_norm", "attn_norm", il)
        out = mixed(g, DECODER, il, x, x)
        if il == g.hp.n_layer - 1:
            x, out = only_outputs(g, x, out)
        x = make("add", out, make("scale", x, scale=scale, bias=0.0))
        x = norm(g, RMS, g.name(x, "ffn_inp", il), "ffn_norm", "ffn_norm", il)
        out = feed_forward(g, DECODER, il, x, x)
        x = g.name(make("add", out, make("scale", x, scale=scale, bias=0.0)), "l_out", il)
    head(g, x)
