"""kimi-k3: kimi-linear with gated latent attention and a bounded decay; every few layers what a
layer reads is banked, and attention and feed-forward read a mixture of the banked ones and the
current sum, weighed by scores; experts work in a smaller space."""

from __future__ import annotations

from dataclasses import replace

from llamapy.graph.ops import make
from llamapy.graph.tensor import Tensor
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models import kimi_linear
from llamapy.models.blocks import RMS, Attn, Decoder, Moe
from llamapy.models.blocks.banked import mixture, score_tensors
from llamapy.models.blocks.decoder import decoder_tensors, feed_forward, mixed
from llamapy.models.blocks.ends import embed, head, only_outputs
from llamapy.models.blocks.kda import KdaMixer
from llamapy.models.blocks.kda import kda_states as states
from llamapy.models.blocks.mla import MlaAttention
from llamapy.models.blocks.mla import mla_cache as cache
from llamapy.models.blocks.norm import norm
from llamapy.models.builder import Builder

HANDLES, UNREAD = kimi_linear.HANDLES, kimi_linear.UNREAD


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = kimi_linear.hparams(file, hp)
    normalise = file.get_bool("kimi-k3.expert_weights_norm", False)
    experts = replace(
        hp.experts,
        normalise=normalise,
        n_embd=count(file, "kimi-k3.expert_latent_length", 0),
    )
    return replace(
        hp,
        experts=experts,
        res_block=count(file, "kimi-k3.attn_res.block_size", least=1),
        situ=tuple(
            file.get_float(f"kimi-k3.activation.{key}", 0.0)
            for key in ("situ_beta", "situ_linear_beta")
        ),
    )


def _decoder(hp: HParams) -> Decoder:
    attention = MlaAttention(Attn(rope=None, gate="sigmoid"))
    base = kimi_linear.mixers(KdaMixer(sign=-1.0), attention)
    return replace(base, act="situ", moe=Moe(act="situ"))


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return [*decoder_tensors(_decoder(hp), hp, has), *score_tensors(hp)]


def build(g: Builder) -> None:
    d = _decoder(g.hp)
    x = embed(g)
    banked: list[Tensor] = []
    for il in range(g.hp.n_layer):
        h = mixture(g, banked, x, g.layer(il, "attn_res_score.weight"))
        bank = il % g.hp.res_block == 0
        if bank:
            banked.append(x)
        h = mixed(g, d, il, norm(g, RMS, h, "attn_norm", "attn_norm", il), x)
        x = h if bank else make("add", x, h)
        h = mixture(g, banked, x, g.layer(il, "ffn_res_score.weight"))
        h = feed_forward(g, d, il, norm(g, RMS, h, "ffn_norm", "ffn_norm", il), x)
        x = g.name(make("add", x, h), "l_out", il)
    (x,) = only_outputs(g, mixture(g, banked, x, g.weight("output_res_score.weight")))
    head(g, x)


__all__ = ["HANDLES", "build", "cache", "hparams", "states", "tensors"]
