"""Norms. The weight is a separate `mul` here; fusion folds it in."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.models.builder import Builder


def rms_norm(g: Builder, x: Tensor, weight: Tensor | None, name: str, il: int = -1) -> Tensor:
    """x / sqrt(mean(x^2) + eps) along ne[0], times the weight [ne0]."""
    out = make("rms_norm", x, eps=g.hp.norm_rms_eps)
    if weight is not None:
        out = make("mul", out, weight)
    return g.name(out, name, il)
