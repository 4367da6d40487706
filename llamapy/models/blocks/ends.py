"""Both ends of a decoder: token embedding, selection of the wanted rows, output head."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import TensorSpec
from llamapy.models import inputs
from llamapy.models.blocks.norm import rms_norm
from llamapy.models.builder import Builder


def embed(g: Builder, scale: float = 1.0) -> Tensor:
    """Rows of token_embd, [n_embd, n_tokens]."""
    ids = g.add_input(inputs.token_ids(g.shape.n_tokens))
    x = make("get_rows", g.weight("token_embd.weight"), ids)
    if scale != 1.0:
        x = make("scale", x, scale=scale, bias=0.0)
    return g.name(x, "inp_embd")


def only_outputs(g: Builder, *xs: Tensor) -> list[Tensor]:
    """The rows whose logits are wanted: what comes after the last attention is computed for no
    others. [n_embd, n_tokens] -> [n_embd, n_outputs]"""
    if g.shape.n_outputs == g.shape.n_tokens:
        return list(xs)
    rows = g.add_input(inputs.output_rows(g.shape.n_outputs))
    return [make("get_rows", x, rows) for x in xs]


def head(g: Builder, x: Tensor) -> None:
    """Final norm and output matrix (the embedding where the file has none of its own), whose
    activation is kept precise: what is rounded here goes into the logits undiminished."""
    x = rms_norm(g, x, g.weight("output_norm.weight"), "result_norm")
    w = g.maybe("output.weight")
    w = w if w is not None else g.weight("token_embd.weight")
    logits = make("mul_mat", w, x, precise=True)
    if g.hp.final_softcap:
        logits = make("softcap", logits, cap=g.hp.final_softcap)
    g.finish(g.name(logits, "result_output"))


def end_tensors(hp: HParams) -> list[TensorSpec]:
    vocab = (hp.n_embd, hp.n_vocab)
    return [
        TensorSpec("token_embd.weight", vocab, None, "input", op="get_rows"),
        TensorSpec("output_norm.weight", (hp.n_embd,), None, "output", op="mul"),
        TensorSpec("output.weight", vocab, None, "output", required=False),
    ]
