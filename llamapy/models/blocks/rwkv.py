"""RWKV (Peng et al. 2024, "Eagle and Finch", arXiv 2404.05892; 2025, "Goose", arXiv 2503.14456):
no attention; a layer mixes each token with the one before it, then keeps a state for each head
(time mix), and in the place of a feed-forward has another such mixture (channel mix)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.ends import embed, end_tensors, head, only_outputs
from llamapy.models.blocks.ffn import ffn, ffn_tensors
from llamapy.models.blocks.linear import linear, linear_tensors, vector
from llamapy.models.blocks.norm import LAYER, RMS, norm, norm_tensors
from llamapy.models.builder import Builder

GROUP_NORM_EPS = 64e-5


@dataclass(slots=True)
class Mixed:
    """What a mix reads: rows [n_embd, n_tokens], and how the rows before them differ."""

    x: Tensor
    step: Tensor

    def by(self, weight: Tensor) -> Tensor:
        """Part of the way to the row before. weight [n_embd] or [n_embd, n_tokens]"""
        return make("add", make("mul", self.step, weight), self.x)


# y of layer il, and the first layer's values, which later ones are given.
TimeMix = Callable[[Builder, int, Mixed, Tensor | None], tuple[Tensor, Tensor | None]]
ChannelMix = Callable[[Builder, int, Mixed], Tensor]


def with_step(g: Builder, il: int, state: str, x: Tensor) -> Mixed:
    before = make("token_shift", g.state(il, state), x, g.runs)
    return Mixed(x, make("sub", before, x))


def lerp(g: Builder, il: int, name: str, m: Mixed) -> Tensor:
    return m.by(reshape(g.layer(il, f"{name}.weight"), m.x.ne[0]))


def low_rank(g: Builder, il: int, name: str, x: Tensor, act: str = "") -> Tensor:
    """`<name>2` times act(`<name>1` times x), plus `<name>0` where there is one."""
    h = make("mul_mat", g.layer(il, f"{name}1.weight"), x)
    out = make("mul_mat", g.layer(il, f"{name}2.weight"), make(act, h) if act else h)
    start = g.maybe_layer(il, f"{name}0.weight")
    return out if start is None else make("add", out, start)


def by_head(g: Builder, x: Tensor) -> Tensor:
    """[n_embd, n_tokens] as [n_embd_head, n_head, n_tokens]; heads that several share, repeated."""
    size, n_head, n = g.hp.rwkv.n_embd_head, g.hp.rwkv.n_head, x.ne[1]
    n_kv = x.ne[0] // size
    if n_kv < n_head:
        ne, nb = (size, n_head // n_kv, n_kv, n), (0, 4 * size, x.nb[1])
        x = make("cpy", view(x, ne, nb), type="f32")
    return reshape(x, size, n_head, n)


def head_norm(g: Builder, il: int, y: Tensor) -> Tensor:
    """A norm of each head, then weight and bias, where the file has them. y [n_embd_head, n_head,
    n_tokens] -> [n_embd, n_tokens]"""
    if g.maybe_layer(il, "time_mix_ln.weight") is None:
        return reshape(y, g.hp.n_embd, y.ne[2])
    y = reshape(make("norm", y, eps=GROUP_NORM_EPS), g.hp.n_embd, y.ne[2])
    y = make("mul", y, g.layer(il, "time_mix_ln.weight"))
    return make("add", y, g.layer(il, "time_mix_ln.bias"))


def squared_relu(g: Builder, il: int, x: Tensor) -> Tensor:
    """The channel mix's two matrices."""
    k = make("relu_sqr", linear(g, il, "channel_mix_key", x))
    return linear(g, il, "channel_mix_value", k)


def build_with_ffn(g: Builder, time_mix: TimeMix) -> None:
    """The whole graph of a transformer whose attention became a time mix: RMS norms, a gated
    feed-forward."""
    x, first = embed(g), None
    for il in range(g.hp.n_layer):
        m = with_step(g, il, "time", norm(g, RMS, x, "attn_norm", "attn_norm", il))
        y, first = time_mix(g, il, m, first)
        if il == g.hp.n_layer - 1:
            x, y = only_outputs(g, x, y)
        x = g.name(make("add", y, x), "ffn_inp", il)
        h = ffn(g, il, norm(g, RMS, x, "ffn_norm", "ffn_norm", il), "swiglu")
        x = g.name(make("add", h, x), "l_out", il)
    head(g, x)


def with_ffn_tensors(
    hp: HParams, has: Has, layer: Callable[[int], list[TensorSpec]]
) -> list[TensorSpec]:
    """What `build_with_ffn` reads, and `layer(il)`."""
    specs = end_tensors(hp)
    for il in range(hp.n_layer):
        specs += norm_tensors(hp, "attn_norm", il) + norm_tensors(hp, "ffn_norm", il)
        specs += matrix_tensors(hp, il) + ffn_tensors(hp, il, "swiglu", has) + layer(il)
    return specs


def time_states(hp: HParams) -> Sequence[States]:
    """Without a channel mix."""
    return [{k: v for k, v in s.items() if k != "channel"} for s in rwkv_states(hp)]


def build_rwkv(g: Builder, time_mix: TimeMix, channel_mix: ChannelMix) -> None:
    """The whole graph."""
    hp, first = g.hp, None
    x = norm(g, LAYER, embed(g), "token_embd_norm", "inp_norm")
    for il in range(hp.n_layer):
        m = with_step(g, il, "time", norm(g, LAYER, x, "attn_norm", "attn_norm", il))
        y, first = time_mix(g, il, m, first)
        x = g.name(make("add", y, x), "ffn_inp", il)
        m = with_step(g, il, "channel", norm(g, LAYER, x, "attn_norm_2", "ffn_norm", il))
        if il == hp.n_layer - 1:
            x, m.x, m.step = only_outputs(g, x, m.x, m.step)
        x = make("add", channel_mix(g, il, m), x)
        if hp.rwkv.halve and (il + 1) % hp.rwkv.halve == 0:
            x = make("scale", x, scale=0.5, bias=0.0)
        x = g.name(x, "l_out", il)
    head(g, x, LAYER)


def matrix_tensors(hp: HParams, il: int) -> list[TensorSpec]:
    n, n_kv = hp.n_embd, hp.rwkv.n_embd_head * hp.rwkv.n_head_kv
    rows = {"receptance": n, "key": n_kv, "value": n_kv, "output": n}
    return [t for k, m in rows.items() for t in linear_tensors(il, f"time_mix_{k}", n, m)]


def rwkv_tensors(hp: HParams, layer: Callable[[int], list[TensorSpec]]) -> list[TensorSpec]:
    """What all versions have, and `layer(il)`."""
    n, specs = hp.n_embd, end_tensors(hp)
    specs += norm_tensors(hp, "token_embd_norm", None, role="input")
    for il in range(hp.n_layer):
        specs += norm_tensors(hp, "attn_norm", il) + norm_tensors(hp, "attn_norm_2", il)
        specs += matrix_tensors(hp, il)
        specs += norm_tensors(hp, "time_mix_ln", il)
        specs.append(vector(il, "channel_mix_lerp_k.weight", n))
        specs += linear_tensors(il, "channel_mix_key", n, hp.n_ff[il])
        specs += linear_tensors(il, "channel_mix_value", hp.n_ff[il], n)
        specs += layer(il)
    return specs


def low_rank_tensors(
    il: int, name: str, n: int, rank: int, *, start: bool = True
) -> list[TensorSpec]:
    return [
        *([vector(il, f"{name}0.weight", n, op="add")] if start else []),
        *linear_tensors(il, f"{name}1", n, rank),
        *linear_tensors(il, f"{name}2", rank, n),
    ]


def rwkv_states(hp: HParams) -> Sequence[States]:
    """The last row that each mix has read, and the heads' states."""
    r = hp.rwkv
    one: States = {
        "time": (hp.n_embd,),
        "channel": (hp.n_embd,),
        "wkv": (r.n_embd_head, r.n_embd_head, r.n_head),
    }
    return [one] * hp.n_layer
