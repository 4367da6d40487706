"""qwen4exp: gated delta nets and gated attention as in qwen35, between residual streams instead of
norms; embeddings of the last tokens together in one layer. Attention looks at chosen blocks of
tokens in long contexts; here at all, so that contexts are as long as what would be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.kv.api import States
from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_ngrams, with_streams
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models import qwen35moe
from llamapy.models.blocks import Decoder, streams
from llamapy.models.blocks.chosen import INDEXER, refuse_choice, with_chosen
from llamapy.models.blocks.decoder import decoder_tensors, feed_forward, mixed
from llamapy.models.blocks.ends import embed, only_outputs, output
from llamapy.models.blocks.gdn import gdn_at, gdn_states
from llamapy.models.blocks.ngrams import add_ngrams, ngram_states, ngram_tensors
from llamapy.models.builder import Builder

RATIOS = "attention.compress_ratios"
HANDLES = qwen35moe.HANDLES | {"embedding_length_per_layer_input", RATIOS}
UNREAD = (*(f"attn_{x}.bias" for x in "qkv"), *INDEXER)


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = with_streams(file, qwen35moe.hparams(file, hp))
    if any(file.per_layer(f"qwen4exp.{RATIOS}", hp.n_layer + hp.n_layer_nextn, 0)):
        hp = with_chosen(file, hp)
    return with_ngrams(file, hp)


def states(hp: HParams) -> Sequence[States]:
    at, more = hp.ngrams.layer, ngram_states(hp)
    return [{**one, **(more if il == at else {})} for il, one in enumerate(gdn_states(hp))]


def _decoder(hp: HParams) -> Decoder:
    return replace(
        qwen35moe.decoder(hp),
        attn_norm="",
        ffn_norm="",
        output_norm="",
        mixer=gdn_at(tiled=True, gate="sigmoid"),
    )


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    specs = decoder_tensors(_decoder(hp), hp, has) + streams.stream_tensors(hp, None, "output_hc")
    for il in range(hp.n_layer):
        specs += [t for n in ("hc_attn", "hc_ffn") for t in streams.stream_tensors(hp, il, n)]
    return specs + (ngram_tensors(hp) if hp.ngrams.n else [])


def build(g: Builder) -> None:
    hp, d = g.hp, _decoder(g.hp)
    refuse_choice(g)
    x = streams.repeated(embed(g), hp.n_streams)
    for il in range(hp.n_layer):
        if il == hp.ngrams.layer:
            x = add_ngrams(g, il, x)
        h, normed = streams.read_streams(g, il, x, "hc_attn")
        h, w = mixed(g, d, il, h, h), streams.stream_weights(g, il, normed, "hc_attn")
        if il == hp.n_layer - 1:
            h, w = only_outputs(g, h, w)
            x = streams.output_streams(g, x)
        x = streams.add_to_streams(x, h, w)
        h, normed = streams.read_streams(g, il, x, "hc_ffn")
        w = streams.stream_weights(g, il, normed, "hc_ffn")
        x = g.name(streams.add_to_streams(x, feed_forward(g, d, il, h, h), w), "l_out", il)
    output(g, streams.read_streams(g, -1, x, "output_hc")[0])
