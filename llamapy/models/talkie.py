"""talkie: norms without weights, those of q and k after the rope, a factor for each head of q; the
embeddings are added to every layer's result, times a number of that layer."""

from __future__ import annotations

from llamapy.graph.ops import make
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, read_scales
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.blocks import BARE, RMS, Attn, Decoder
from llamapy.models.blocks.decoder import decoder_tensors, layer
from llamapy.models.blocks.ends import embed, head, only_outputs
from llamapy.models.blocks.linear import vector
from llamapy.models.blocks.norm import norm
from llamapy.models.builder import Builder

HANDLES = frozenset({"logit_scale"})
DECODER = Decoder(weights=False, attn=Attn(qk_norm=BARE, norm_last=True))


def hparams(file: Keys, hp: HParams) -> HParams:
    return read_scales(file, hp)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    scales = [vector(il, "layer_output_scale.weight", 1) for il in range(hp.n_layer)]
    return decoder_tensors(DECODER, hp, has) + scales


def build(g: Builder) -> None:
    x = skip = norm(g, RMS, embed(g), "", "inp_norm")
    for il in range(g.hp.n_layer):
        last = il == g.hp.n_layer - 1
        x = layer(g, DECODER, il, x, last=last)
        if last:
            (skip,) = only_outputs(g, skip)
        scaled = make("mul", skip, g.layer(il, "layer_output_scale.weight"))
        x = g.name(make("add", x, scaled), "l_out_skip", il)
    head(g, x, RMS, g.hp.logit_scale, "")
