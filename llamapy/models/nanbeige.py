"""nanbeige: llama whose layers are gone through several times, each time with a cache of its own
and, unless the file says otherwise, the final norm between the rounds."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import NORMAL, RMS, Attn, Decoder
from llamapy.models.blocks.decoder import decoder_tensors, layer
from llamapy.models.blocks.ends import embed, head
from llamapy.models.blocks.norm import norm
from llamapy.models.builder import Builder

HANDLES = frozenset({"num_loops", "skip_loop_final_norm"})
DECODER = Decoder(attn=Attn(rope=NORMAL, rope_factors=True))


def hparams(file: Keys, hp: HParams) -> HParams:
    n_loops = count(file, "nanbeige.num_loops", 1, least=1)
    return repeated(
        replace(hp, skip_loop_norm=file.get_bool("nanbeige.skip_loop_final_norm", False)), n_loops
    )


def repeated(hp: HParams, n: int) -> HParams:
    return replace(
        hp,
        n_layer=hp.n_layer * n,
        layer_weights=tuple(range(hp.n_layer)) * n,
        n_head=hp.n_head * n,
        n_head_kv=hp.n_head_kv * n,
        n_ff=hp.n_ff * n,
        is_swa=hp.is_swa * n,
    )


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return decoder_tensors(DECODER, replace(hp, n_layer=max(hp.layer_weights) + 1), has)


def build(g: Builder) -> None:
    x = embed(g)
    n = max(g.hp.layer_weights) + 1
    for il in range(g.hp.n_layer):
        last = il == g.hp.n_layer - 1
        x = layer(g, DECODER, il, x, last=last)
        if (il + 1) % n == 0 and not last and not g.hp.skip_loop_norm:
            x = norm(g, RMS, x, "output_norm", f"loop_norm-{il}")
    head(g, x)
