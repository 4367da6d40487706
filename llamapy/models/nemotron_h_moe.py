"""nemotron_h_moe: nemotron_h with experts, ungated, which may work in a space of their own, and
shared ones."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams, with_experts
from llamapy.models import nemotron_h
from llamapy.models.nemotron_h import decoder, states

HANDLES = nemotron_h.HANDLES | {"expert_count", "nextn_predict_layers"}


def hparams(file: Keys, hp: HParams) -> HParams:
    hp = nemotron_h.hparams(file, hp)
    hp = with_experts(file, hp, gating="sigmoid", normalise=False, shared=True)
    e, pre = hp.experts, f"{hp.arch}."
    if not e.n:
        return hp
    if f"{pre}expert_feed_forward_length" not in file.keys:
        own = (n // max(e.used(il), 1) for il, n in enumerate(hp.n_ff))
        e = replace(e, ff_by_layer=tuple(own))
    return replace(hp, experts=replace(e, n_embd=count(file, f"{pre}moe_latent_size", 0)))


__all__ = ["HANDLES", "decoder", "hparams", "states"]
