"""Learned augmented residuals (Menghani et al. 2025, arXiv 2411.07501) as in Gemma 3n: a branch of
low rank beside attention, added to what attention reads."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.norm import RMS, norm
from llamapy.models.builder import Builder

RANK = 64


def laurel_tensors(hp: HParams, il: int) -> list[TensorSpec]:
    n = hp.n_embd
    return [
        TensorSpec(f"blk.{il}.laurel_l.weight", (n, RANK), il, "layer"),
        TensorSpec(f"blk.{il}.laurel_r.weight", (RANK, n), il, "layer"),
        vector(il, "laurel_post_norm.weight", n),
    ]


def laurel(g: Builder, il: int, x: Tensor) -> Tensor:
    """x [n_embd, n_tokens] -> the same"""
    low = make("mul_mat", g.layer(il, "laurel_l.weight"), x)
    low = make("mul_mat", g.layer(il, "laurel_r.weight"), low)
    return make("add", norm(g, RMS, low, "laurel_post_norm", "laurel_norm", il), x)
