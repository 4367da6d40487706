"""Feed-forward of one kind for all tokens."""

from __future__ import annotations

from llamapy.graph.ops import GLU, make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import linear, linear_tensors
from llamapy.models.builder import Builder


def ffn(g: Builder, il: int, x: Tensor, act: str, suffix: str = "") -> Tensor:
    """down(act(gate(x)) * up(x)) where `act` is a gated op (swiglu, geglu, ...), else
    down(act(up(x))). Without a matrix of its own the gate is the first half of up's rows.
    `suffix` tells the shared experts' matrices apart."""
    up = linear(g, il, f"ffn_up{suffix}", x)
    if g.maybe_layer(il, f"ffn_gate{suffix}.weight") is None:
        h = make(act, up)
    else:
        gate = linear(g, il, f"ffn_gate{suffix}", x)
        g.expand(gate, up)
        h = make(act, gate, up)
    scales = g.maybe_layer(il, "ffn.act.scales")
    if scales is not None:
        h = make("div", h, scales)
    return linear(g, il, f"ffn_down{suffix}", g.name(h, f"ffn_act{suffix}", il))


def ffn_tensors(
    hp: HParams, il: int, act: str, has: Has, n_ff: int = 0, suffix: str = ""
) -> list[TensorSpec]:
    n_embd, n_ff = hp.n_embd, n_ff or hp.n_ff[il]
    fused = act in GLU and not has(f"blk.{il}.ffn_gate{suffix}.weight")
    gate = linear_tensors(il, f"ffn_gate{suffix}", n_embd, n_ff) if act in GLU else []
    return [
        *([] if fused else gate),
        *linear_tensors(il, f"ffn_up{suffix}", n_embd, 2 * n_ff if fused else n_ff),
        *linear_tensors(il, f"ffn_down{suffix}", n_ff, n_embd),
    ]
