"""t5encoder: the encoder of t5, for embeddings."""

from __future__ import annotations

from llamapy.loader.bounded import Keys
from llamapy.loader.hparams import HParams, with_stacks
from llamapy.loader.spec import Has, TensorSpec
from llamapy.models.bert import GIVES
from llamapy.models.blocks.ends import end_tensors, output
from llamapy.models.blocks.t5 import ENC, encode, stack_tensors
from llamapy.models.builder import Builder
from llamapy.models.caches import unordered as cache


def hparams(file: Keys, hp: HParams) -> HParams:
    return with_stacks(file, hp, decodes=False)


def tensors(hp: HParams, has: Has) -> list[TensorSpec]:
    return [*end_tensors(hp, norm_name=""), *stack_tensors(hp, ENC)]


def build(g: Builder) -> None:
    output(g, encode(g, 0, all_rows=False))


__all__ = ["GIVES", "build", "cache", "hparams", "tensors"]
