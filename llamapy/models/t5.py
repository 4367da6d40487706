"""t5: an encoder that reads a text once, and a decoder that attends to it; biases by distance
instead of positions, scores that are not scaled, feed-forward with or without a gate."""

from __future__ import annotations

from llamapy.kv.api import CacheShape
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_stacks
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks.ends import end_tensors, head
from llamapy.models.blocks.t5 import DEC, ENC, decode, encode, keep, stack_tensors
from llamapy.models.builder import Builder


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_stacks(file, hp, decodes=True)


def cache(hp: HParams) -> CacheShape:
    """The decoder's own K and V. Of texts: K and V for cross attention, behind those of the
    encoder, whose layers use one memory in turn."""
    n, n_enc, n_dec = hp.n_layer, hp.stacks.n_enc, hp.stacks.n_dec
    heads, kv = ((hp.n_embd_head_k,) * n, (hp.n_embd_head_v,) * n), hp.n_head_kv[0]
    share = (0,) * n_enc + tuple(range(n_enc, n))
    text = CacheShape((kv,) * n, *heads, causal=False, share=share)
    return CacheShape((0,) * n_enc + (kv,) * n_dec, *heads, text=text)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return [*end_tensors(hp, norm_name=""), *stack_tensors(hp, ENC), *stack_tensors(hp, DEC)]


def build(g: Builder) -> None:
    n, n_enc = g.hp.n_layer, g.hp.stacks.n_enc
    if g.shape.encodes:
        keep(g, encode(g, n, all_rows=True), n + n_enc)
    else:
        head(g, decode(g, n_enc, n + n_enc), name="dec.output_norm")
