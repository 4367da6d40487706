"""rnd1: qwen3moe that predicts every token from all others: no order, all of a sequence at once."""

from __future__ import annotations

from llamapy.models import qwen3moe
from llamapy.models.caches import unordered as cache
from llamapy.models.qwen3moe import decoder, hparams

HANDLES = qwen3moe.HANDLES | {"attention.causal"}

__all__ = ["HANDLES", "cache", "decoder", "hparams"]
