"""Embeddings looked up by the last tokens together, added to residual streams: each stream says by
a gate how much of them it takes, and a convolution takes those of earlier tokens in."""

from __future__ import annotations

import math

from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import States
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.streams import repeated, stream_norm
from llamapy.models.builder import Builder

LEAST, TINY = 1e-6, 1.2e-38


def ngram_embeddings(g: Builder) -> Tensor:
    """[n_embd, n_tokens]. The last tokens of each sequence are remembered."""
    n, n_tokens = g.hp.ngrams, g.shape.n_tokens
    state = g.state(n.layer, "tokens")
    last = g.add_input(inputs.last_tokens(n_tokens, n.n, state))
    g.expand(make("token_shift", state, last, g.runs))
    rows = g.add_input(inputs.ngram_rows(n_tokens, g.hp, state))
    out = make("get_rows", g.weight("per_layer_token_embd.weight"), rows)
    return reshape(out, g.hp.n_embd, n_tokens)


def _signed_root(x: Tensor) -> Tensor:
    """sign(x) * sqrt(max(|x|, LEAST))"""
    size = make("abs", x)
    sign = make("div", x, make("clamp", size, min=TINY, max=math.inf))
    return make("mul", sign, make("sqrt", make("clamp", size, min=LEAST, max=math.inf)))


def add_ngrams(g: Builder, il: int, x: Tensor) -> Tensor:
    """x [n_embd, n_streams, n_tokens] -> the same"""
    embeddings, (n_embd, n, n_tokens) = ngram_embeddings(g), x.ne[:3]
    key = make("mul_mat", g.layer(il, "ple_key.weight"), embeddings)
    value = make("mul_mat", g.layer(il, "ple_value.weight"), embeddings)
    key = stream_norm(g, reshape(key, *x.ne[:3]), g.layer(il, "ple_norm_key.weight"), "ple_key", il)
    query = stream_norm(g, x, g.layer(il, "ple_norm_query.weight"), "ple_query", il)
    match = make("sum_rows", make("mul", key, query))  # [1, n_streams, n_tokens]
    match = make("scale", match, scale=n_embd**-0.5, bias=0.0)
    taken = make("mul", repeated(value, n), make("sigmoid", _signed_root(match)))
    normed = stream_norm(g, taken, g.layer(il, "ple_norm_conv.weight"), "ple_conv", il)
    seen = make(
        "ssm_conv",
        g.state(il, "ngrams"),
        reshape(normed, n_embd * n, n_tokens),
        g.layer(il, "ple_conv1d.weight"),
        g.runs,
        dilation=g.hp.ngrams.n,
    )
    seen = reshape(make("silu", seen), *x.ne[:3])
    return g.name(make("add", x, make("add", taken, seen)), "ple_out", il)


def ngram_states(hp: HParams) -> States:
    """What layer `hp.ngrams.layer` carries for them."""
    n = hp.ngrams
    return {"tokens": (n.n - 1,), "ngrams": ((n.taps - 1) * n.n, hp.n_embd * hp.n_streams)}


def ngram_tensors(hp: HParams) -> list[TensorSpec]:
    n, il, n_embd, s = hp.ngrams, hp.ngrams.layer, hp.n_embd, hp.n_streams
    table, pre, wide = "per_layer_token_embd.weight", f"blk.{il}.ple_", n_embd * s
    return [
        TensorSpec(table, (n.width, n.n_rows), None, "input", op="get_rows", or_more=True),
        TensorSpec(f"{pre}key.weight", (n_embd, wide), il, "layer"),
        TensorSpec(f"{pre}value.weight", (n_embd, n_embd), il, "layer"),
        *(
            TensorSpec(f"{pre}norm_{c}.weight", (n_embd, s), il, "layer", op="mul", or_ne=(wide,))
            for c in ("key", "query", "conv")
        ),
        vector(il, "ple_conv1d.weight", n.taps, wide, op="ssm_conv"),
    ]
