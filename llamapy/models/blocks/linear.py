"""A matrix with an optional scale and bias."""

from __future__ import annotations

from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.loader.spec import TensorSpec
from llamapy.models.builder import Builder


def linear(g: Builder, il: int, name: str, x: Tensor) -> Tensor:
    """`blk.<il>.<name>.weight` times x, times `.scale` and plus `.bias` where the file has them."""
    out = g.name(make("mul_mat", g.layer(il, f"{name}.weight"), x), name, il)
    scale = g.maybe_layer(il, f"{name}.scale")
    out = out if scale is None else make("mul", out, scale)
    bias = g.maybe_layer(il, f"{name}.bias")
    out = out if bias is None else g.name(make("add", out, bias), f"{name}_b", il)
    return adapted(g, il, name, x, out)


def adapted(g: Builder, il: int, name: str, x: Tensor, out: Tensor) -> Tensor:
    """`out` [n_out, n] plus what each token's adapter makes of x [n_in, n], if there are any."""
    first = g.maybe_layer(il, f"{name}.lora_a")
    if g.adapter_ids is None or first is None:
        return out
    ids, n = g.adapter_ids(x.ne[1]), x.ne[1]
    low = make("mul_mat_id", first, reshape(x, x.ne[0], 1, n), ids)
    more = make("mul_mat_id", g.layer(il, f"{name}.lora_b"), low, ids)
    return make("add", reshape(more, *out.ne), out)


def linear_tensors(
    il: int, name: str, n_in: int, n_out: int, *, required: bool = True
) -> list[TensorSpec]:
    return [
        TensorSpec(f"blk.{il}.{name}.weight", (n_in, n_out), il, "layer", required),
        TensorSpec(f"blk.{il}.{name}.scale", (1,), il, "layer", required=False, op="mul"),
        TensorSpec(f"blk.{il}.{name}.bias", (n_out,), il, "layer", required=False, op="add"),
    ]


def vector(il: int, name: str, *ne: int, required: bool = True, op: str = "mul") -> TensorSpec:
    """A per-layer norm weight or the like: applied element by element."""
    return TensorSpec(f"blk.{il}.{name}", ne, il, "layer", required=required, op=op)
