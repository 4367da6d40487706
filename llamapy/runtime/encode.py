"""Texts for the encoder of a model that has one besides its decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llamapy.base.errors import UsageError
from llamapy.kv.api import Ints
from llamapy.loader.hparams import HParams
from llamapy.runtime.batch import Batch, single
from llamapy.runtime.key import GraphKey


def text_batch(hp: HParams, tokens: Sequence[int] | Ints, seq: int, n_past: int) -> Batch:
    """A text for sequence `seq`, which has `n_past` tokens; it is encoded in one ubatch. The
    sequence's tokens see it until all of the sequence is removed; the first of them is
    `hp.stacks.start` by rights. UsageError for a model without an encoder, or a sequence that has
    gone on from another text."""
    if not hp.stacks.n_dec:
        raise UsageError(f"{hp.arch} has no encoder that a decoder attends to")
    if n_past:
        raise UsageError(f"sequence {seq} has a text already: remove all of it before another")
    return replace(single(tokens, 0, seq, "none"), encodes=True)


def encoding(key: GraphKey) -> GraphKey:
    """Of as long a text."""
    return key._replace(n_outputs=0, encodes=True)
