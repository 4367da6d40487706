"""Kimi delta attention (Kimi Linear, arXiv 2510.26692): a gated delta net whose state decays by
channel. q, k and v go through short convolutions, what comes out is normed by head and gated."""

from __future__ import annotations

from dataclasses import dataclass

from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.norm import RMS, norm, norm_tensors, unit
from llamapy.models.builder import Builder


def kda_states(hp: HParams) -> list[States]:
    """Layers without heads carry the last inputs of the convolutions and the state."""
    k = hp.kda
    conv = (k.d_conv - 1, k.d_inner)
    one: States = {
        "q": conv,
        "k": conv,
        "v": conv,
        "s": (k.n_embd_head, k.n_embd_head, k.n_head),
    }
    return [{} if h else one for h in hp.n_head_kv]


@dataclass(frozen=True, slots=True)
class KdaMixer:
    """As a Part of a decoder. `sign` of the file's `ssm_a` where the log decay is bounded."""

    sign: float = 1.0

    def tensors(self, hp: HParams, il: int, has: Has) -> list[TensorSpec]:
        k, pre = hp.kda, f"blk.{il}."
        n, inner = hp.n_embd, k.d_inner
        shapes = {f"attn_{name}": (n, inner) for name in ("q", "k", "v")}
        shapes |= {"attn_output": (inner, n), "ssm_beta": (n, k.n_head)}
        for name in ("ssm_f", "ssm_g"):  # of low rank, or in one
            if has(f"{pre}{name}_b.weight"):
                shapes |= {f"{name}_a": (n, k.n_embd_head), f"{name}_b": (k.n_embd_head, inner)}
            else:
                full = name if has(f"{pre}{name}.weight") else f"{name}_a"
                shapes[full] = (n, inner)
        specs = [TensorSpec(f"{pre}{m}.weight", ne, il, "layer") for m, ne in shapes.items()]
        taps = (k.d_conv, 1, inner)
        for name in ("q", "k", "v"):
            specs.append(vector(il, f"ssm_conv1d_{name}.weight", *taps, op="ssm_conv"))
        return [
            *specs,
            vector(il, "ssm_a", k.n_head),
            vector(il, "ssm_dt.bias", inner, op="add"),
            *norm_tensors(hp, "ssm_norm", il, (k.n_embd_head,)),
        ]

    def build(self, g: Builder, il: int, x: Tensor, layer_input: Tensor) -> Tensor:
        """x [n_embd, n_tokens] -> the same"""
        k, n = g.hp.kda, x.ne[1]
        q, key, v = (self._conv(g, il, name, x) for name in ("q", "k", "v"))
        eps = g.hp.norm_rms_eps
        beta = make("sigmoid", make("mul_mat", g.layer(il, "ssm_beta.weight"), x))
        out = make(
            "gated_delta_net",
            g.state(il, "s"),
            unit(q, eps),
            unit(key, eps),
            v,
            self._decay(g, il, x),
            beta,
            g.runs,
            tiled=0,
            scale=k.n_embd_head**-0.5,
        )
        out = norm(g, RMS, g.name(out, "kda_out", il), "ssm_norm", "kda_norm", il)
        gate = make("sigmoid", _low_rank(g, il, "ssm_g", x))
        out = make("mul", reshape(out, k.d_inner, n), gate)
        return make("mul_mat", g.layer(il, "attn_output.weight"), out)

    def _conv(self, g: Builder, il: int, name: str, x: Tensor) -> Tensor:
        """[n_embd_head, n_head, n_tokens]"""
        k = g.hp.kda
        x = make("mul_mat", g.layer(il, f"attn_{name}.weight"), x)
        taps = reshape(g.layer(il, f"ssm_conv1d_{name}.weight"), k.d_conv, k.d_inner)
        out = make("silu", make("ssm_conv", g.state(il, name), x, taps, g.runs))
        return reshape(out, k.n_embd_head, k.n_head, x.ne[1])

    def _decay(self, g: Builder, il: int, x: Tensor) -> Tensor:
        """Logarithm of what each channel keeps, [n_embd_head, n_head, n_tokens]."""
        k = g.hp.kda
        f = make("add", _low_rank(g, il, "ssm_f", x), g.layer(il, "ssm_dt.bias"))
        by_head = (k.n_embd_head, k.n_head, x.ne[1])
        a = reshape(g.layer(il, "ssm_a"), 1, k.n_head)
        if not k.lower_bound:
            return make("mul", reshape(make("softplus", f), *by_head), a)
        f = make("mul", reshape(f, *by_head), a)
        if self.sign != 1.0:
            f = make("scale", f, scale=self.sign, bias=0.0)
        return make("scale", make("sigmoid", f), scale=k.lower_bound, bias=0.0)


def _low_rank(g: Builder, il: int, name: str, x: Tensor) -> Tensor:
    full = g.maybe_layer(il, f"{name}.weight")
    out = make("mul_mat", full if full is not None else g.layer(il, f"{name}_a.weight"), x)
    second = g.maybe_layer(il, f"{name}_b.weight")
    return out if second is None else make("mul_mat", second, out)
