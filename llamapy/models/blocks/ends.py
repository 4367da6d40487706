"""Both ends of a decoder: token embedding, selection of the wanted rows, output head."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models.blocks.norm import RMS, norm, norm_tensors
from llamapy.models.builder import EMBEDDINGS, Builder
from llamapy.models.inputs import constants

NONE = range(0)
LEAST = -3.4028234663852886e38  # of float32


def embed(g: Builder, scale: float = 1.0) -> Tensor:
    """Rows of token_embd, plus those of learned positions where the file has them.
    [n_embd, n_tokens]"""
    x = make("get_rows", g.weight("token_embd.weight"), g.token_ids)
    if scale != 1.0:
        x = make("scale", x, scale=scale, bias=0.0)
    places = g.maybe("position_embd.weight")
    if places is not None:
        x = make("add", x, make("get_rows", places, g.pos))
    return g.name(x, "inp_embd")


def only_outputs(g: Builder, *xs: Tensor) -> list[Tensor]:
    """The rows whose logits are wanted: what comes after the last attention is computed for no
    others. [n_embd, n_tokens] -> [n_embd, n_outputs]"""
    if g.shape.n_outputs == g.shape.n_tokens:
        return list(xs)
    rows = g.outputs
    return [make("get_rows", x, rows) for x in xs]


def head(
    g: Builder,
    x: Tensor,
    kind: str = RMS,
    scale: float = 1.0,
    name: str = "output_norm",
    never: range = NONE,
) -> None:
    """Final norm and output matrix (the embedding where the file has none of its own), whose
    activation is kept precise: what is rounded here goes into the logits undiminished. Logits are
    multiplied by `scale`, then capped; those of `never` are the least number there is."""
    output(g, norm(g, kind, x, name, "result_norm"), scale, never)


def output(g: Builder, x: Tensor, scale: float = 1.0, never: range = NONE) -> None:
    """The output matrix and what follows it, unless embeddings are wanted: then `x` [n_embd,
    n_outputs], normed, is the end."""
    if g.shape.ends == EMBEDDINGS:
        g.finish(x)
        return
    w = g.maybe("output.weight")
    w = w if w is not None else g.weight("token_embd.weight")
    logits = make("mul_mat", w, x, precise=True)
    bias = g.maybe("output.bias")
    if bias is not None:
        logits = make("add", logits, bias)
    if scale != 1.0:
        logits = make("scale", logits, scale=scale, bias=0.0)
    if g.hp.final_softcap:
        logits = make("softcap", logits, cap=g.hp.final_softcap)
    if never:
        less = constants("never", [LEAST if i in never else 0.0 for i in range(g.hp.n_vocab)])
        logits = make("add", logits, g.add_input(less))
    g.finish(g.name(logits, "result_output"))


def end_tensors(hp: HParams, *, norm_name: str = "output_norm") -> list[TensorSpec]:
    vocab = (hp.n_embd, hp.n_vocab)
    specs = [
        TensorSpec("token_embd.weight", vocab, None, "input", op="get_rows"),
        TensorSpec("output.weight", vocab, None, "output", required=False),
        TensorSpec("output.bias", (hp.n_vocab,), None, "output", required=False, op="add"),
    ]
    return specs + (norm_tensors(hp, norm_name, None, role="output") if norm_name else [])
