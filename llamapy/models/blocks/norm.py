"""Norms. Weight and bias are a `mul` and an `add` of their own here; fusion folds them in."""

from __future__ import annotations

from functools import partial

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.builder import Builder

RMS, LAYER = "rms", "layer"


def norm(
    g: Builder, kind: str, x: Tensor, weight: str, name: str, il: int = -1, eps: float = 0.0
) -> Tensor:
    """A norm of either kind along ne[0]. `weight` names its tensors without `.weight` and `.bias`,
    which are applied where the file has them; '' for a norm without any. `eps` 0: the model's."""
    if kind == RMS:
        out = make("rms_norm", x, eps=eps or g.hp.norm_rms_eps)
    else:
        out = make("norm", x, eps=eps or g.hp.norm_eps)
    if weight:
        find = g.maybe if il < 0 else partial(g.maybe_layer, il)
        w = find(f"{weight}.weight")
        w = w if w is not None else find(weight)
        out = out if w is None else make("mul", out, w)
        b = find(f"{weight}.bias")
        out = out if b is None else make("add", out, b)
    return g.name(out, name, il)


def unit(x: Tensor, eps: float) -> Tensor:
    """x / sqrt(sum(x^2) + eps) along ne[0]."""
    n = x.ne[0]
    return make("scale", make("rms_norm", x, eps=eps / n), scale=n**-0.5, bias=0.0)


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
