"""AltUp (Baykal et al. 2023, arXiv 2301.13310) as in Gemma 3n: several streams, of which a layer
reads and computes one; the others are predicted from all, then corrected by what it gave."""

from __future__ import annotations

from llamapy.graph.ops import make, reshape, view
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.norm import RMS, norm
from llamapy.models.builder import Builder

N_STREAMS = 4


def altup_tensors(hp: HParams) -> list[TensorSpec]:
    n, s = hp.n_embd, N_STREAMS
    between = (n, n, s - 1)
    specs = [
        TensorSpec("altup_proj.weight", between, None, "input"),
        TensorSpec("altup_unembd_proj.weight", between, None, "output"),
    ]
    for il in range(hp.n_layer):
        for name, ne in (
            ("correct_coef", (s, s)),
            ("predict_coef", (s, s * s)),
            ("router", (n, s)),
        ):
            specs.append(TensorSpec(f"blk.{il}.altup_{name}.weight", ne, il, "layer"))
        for name in ("correct_scale", "router_norm"):
            specs.append(vector(il, f"altup_{name}.weight", n))
    return specs


def spread(g: Builder, x: Tensor) -> list[Tensor]:
    """All streams from the first one, x [n_embd, n_tokens]; each row has x's length."""
    w, length = g.weight("altup_proj.weight"), _length(x)
    others = (make("mul_mat", _plane(w, i), x) for i in range(N_STREAMS - 1))
    return [x, *(_as_long(o, length) for o in others)]


def merge(g: Builder, streams: list[Tensor]) -> Tensor:
    """Their mean, the others brought back to the first one's space and length."""
    w, x = g.weight("altup_unembd_proj.weight"), streams[0]
    length = _length(x)
    for i, s in enumerate(streams[1:]):
        x = make("add", x, _as_long(make("mul_mat", _plane(w, i), s), length))
    return _scaled(x, 1.0 / N_STREAMS)


def _scaled(x: Tensor, scale: float, bias: float = 0.0) -> Tensor:
    return make("scale", x, scale=scale, bias=bias)


def _length(x: Tensor) -> Tensor:
    return make("sqrt", make("sum_rows", make("sqr", x)))


def _as_long(x: Tensor, length: Tensor) -> Tensor:
    """x with the length of each row changed."""
    return make("div", make("mul", x, length), _length(x))


def _plane(w: Tensor, i: int) -> Tensor:
    return view(w, (w.ne[0], w.ne[1]), (w.nb[1],), i * w.nb[2])


def _router(g: Builder, il: int, x: Tensor) -> Tensor:
    """[n_embd, n_tokens] -> [N_STREAMS, n_tokens]"""
    h = norm(g, RMS, x, "altup_router_norm", "altup_router_norm", il)
    h = make("mul_mat", g.layer(il, "altup_router.weight"), _scaled(h, 1.0 / g.hp.n_embd))
    return make("tanh", h)


def predict(g: Builder, il: int, streams: list[Tensor]) -> list[Tensor]:
    n, n_tokens = streams[0].ne[:2]
    by = _router(g, il, streams[0])
    coefs = make("mul_mat", g.layer(il, "altup_predict_coef.weight"), by)
    stack = reshape(streams[0], n, 1, n_tokens)
    for s in streams[1:]:
        stack = make("concat", stack, reshape(s, n, 1, n_tokens), axis=1)
    out = []
    for i, s in enumerate(streams):
        row = view(coefs, (N_STREAMS, n_tokens), (coefs.nb[1],), 4 * i * N_STREAMS)
        out.append(make("add", make("weighted_sum", stack, make("cpy", row, type="f32")), s))
    return out


def correct(g: Builder, il: int, predicted: list[Tensor], made: Tensor) -> list[Tensor]:
    by = make("mul_mat", g.layer(il, "altup_correct_coef.weight"), _router(g, il, made))
    by = _scaled(by, 1.0, 1.0)  # [N_STREAMS, n_tokens]
    news = make("sub", made, predicted[0])
    out = []
    for i, p in enumerate(predicted):
        coef = make("cpy", view(by, (1, by.ne[1]), (by.nb[1],), 4 * i), type="f32")
        out.append(make("add", make("mul", news, coef), p))
    return out
