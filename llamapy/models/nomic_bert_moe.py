"""nomic-bert-moe: bert with rope, and experts in the second of every few layers."""

from __future__ import annotations

from dataclasses import replace

from llamapy.loader.bounded import Keys, count
from llamapy.loader.experts import Experts
from llamapy.loader.hparams import HParams, of_encoder, with_experts
from llamapy.models.bert import GIVES, cache
from llamapy.models.jina_bert_v3 import encoder

HANDLES = frozenset({"attention.causal", "expert_count"})


def hparams(file: Keys, hp: HParams) -> HParams:
    step = count(file, "nomic-bert-moe.moe_every_n_layers", 0)
    hp = with_experts(file, of_encoder(file, hp), normalise=False, step=step)
    return replace(hp, experts=replace(hp.experts, phase=1) if step > 1 else Experts())


__all__ = ["GIVES", "HANDLES", "cache", "encoder", "hparams"]
