"""Feed-forward blocks."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.linear import linear, linear_tensors
from llamapy.models.builder import Builder


def ffn_gated(g: Builder, il: int, x: Tensor, glu: str) -> Tensor:
    """down(act(gate(x)) * up(x)); `glu` is the op: swiglu, geglu, ..."""
    gate = linear(g, il, "ffn_gate", x)
    up = linear(g, il, "ffn_up", x)
    h = g.name(make(glu, gate, up), "ffn_act", il)  # [n_ff, n_tokens]
    return linear(g, il, "ffn_down", h)


def ffn_gated_tensors(hp: HParams, il: int) -> list[TensorSpec]:
    n_embd, n_ff = hp.n_embd, hp.n_ff[il]
    return [
        *linear_tensors(il, "ffn_gate", n_embd, n_ff),
        *linear_tensors(il, "ffn_up", n_embd, n_ff),
        *linear_tensors(il, "ffn_down", n_ff, n_embd),
    ]
