"""Attention over residuals (Kimi K3): every few layers what a layer reads is banked, and attention
and feed-forward read a mixture of the banked ones and the current sum, weighed by scores."""

from __future__ import annotations

from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.linear import vector
from llamapy.models.builder import Builder


def score_tensors(hp: HParams) -> list[TensorSpec]:
    """Two of each layer, `<part>_res_score`, and `output_res_score`."""
    scores = [
        vector(il, f"{part}_res_score.weight", hp.n_embd)
        for il in range(hp.n_layer)
        for part in ("attn", "ffn")
    ]
    return [*scores, TensorSpec("output_res_score.weight", (hp.n_embd,), None, "output", op="mul")]


def _scores(g: Builder, x: Tensor, weight: Tensor) -> Tensor:
    """[n_embd, n, n_tokens] -> [n, n_tokens]"""
    normed = make("mul", make("rms_norm", x, eps=g.hp.norm_rms_eps), weight)
    return reshape(make("sum_rows", normed), x.ne[1], x.ne[2])


def mixture(g: Builder, banked: list[Tensor], x: Tensor, weight: Tensor) -> Tensor:
    """The banked ones and x [n_embd, n_tokens], weighed by scores that `weight` [n_embd] gives."""
    if not banked:
        return x
    stack = reshape(banked[0], x.ne[0], 1, x.ne[1])
    for b in (*banked[1:], x):
        stack = make("concat", stack, reshape(b, x.ne[0], 1, x.ne[1]), axis=1)
    return make("weighted_sum", stack, make("soft_max", _scores(g, stack, weight)))
