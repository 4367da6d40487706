"""Norms. Weight and bias are a `mul` and an `add` of their own here; fusion folds them in."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.builder import Builder

RMS, LAYER = "rms", "layer"


def rms_norm(
    g: Builder, x: Tensor, weight: Tensor | None, name: str, il: int = -1, eps: float = 0.0
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) along ne[0], times the weight [ne0]."""
    out = make("rms_norm", x, eps=eps or g.hp.norm_rms_eps)
    if weight is not None:
        out = make("mul", out, weight)
    return g.name(out, name, il)


def norm(g: Builder, kind: str, x: Tensor, weight: str, name: str, il: int = -1) -> Tensor:
    """A norm of either kind along ne[0]. `weight` names its tensors without `.weight` and `.bias`,
    which are applied where the file has them; '' for a norm without any."""
    full = f"blk.{il}.{weight}" if il >= 0 else weight
    if kind == RMS:
        out = make("rms_norm", x, eps=g.hp.norm_rms_eps)
    else:
        out = make("norm", x, eps=g.hp.norm_eps)
    w = g.maybe(f"{full}.weight") if weight else None
    w = w if w is not None or not weight else g.maybe(full)
    if w is not None:
        out = make("mul", out, w)
    b = g.maybe(f"{full}.bias") if weight else None
    if b is not None:
        out = make("add", out, b)
    return g.name(out, name, il)


def norm_tensors(
    hp: HParams, name: str, il: int | None, ne: tuple[int, ...] = (), role: str = "layer",
    required: bool = True, has: Has | None = None,
) -> list[TensorSpec]:  # fmt: skip
    """Weight [n_embd, or `ne`] and optional bias of a norm."""
    full = name if il is None else f"blk.{il}.{name}"
    ne = ne or (hp.n_embd,)
    if has is not None and has(full):  # some converters leave `.weight` out
        return [TensorSpec(full, ne, il, role, op="mul")]
    return [
        TensorSpec(f"{full}.weight", ne, il, role, required, op="mul"),
        TensorSpec(f"{full}.bias", ne, il, role, required=False, op="add"),
    ]
