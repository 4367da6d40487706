"""Texts as vectors: several sequences in one batch, one row for each, or one for each token.

Rows are pooled here, in float64, and not in the graph, where what else is in the batch would change
the order of the sum; a text that is longer than a ubatch pools as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamapy.base.errors import UsageError
from llamapy.kv.api import Floats, Ints
from llamapy.loader.pooled import POOLINGS
from llamapy.models.builder import EMBEDDINGS, LOGITS, GraphShape
from llamapy.models.pooled import build_pooled, follows
from llamapy.runtime.batch import Batch, join, single

if TYPE_CHECKING:
    from llamapy.runtime.context import Context

Tokens = Sequence[int] | Ints


def pooling_of(ctx: Context, asked: str | None) -> str:
    """What is asked for, else what the file says, else 'mean' where tokens see all others and
    'last' where the last one alone has seen all. UsageError for 'rank' without its matrices."""
    pooling = asked or ctx.hp.pooled.by or ("last" if _causal(ctx) else "mean")
    if pooling not in POOLINGS:
        raise UsageError(f"pooling must be one of {', '.join(POOLINGS)}, not '{pooling}'")
    if pooling == "rank" and not follows(ctx.builder(_alone(1)), pooling):
        raise UsageError(f"this {ctx.arch.name} has no matrix that ranks (cls, cls.output)")
    return pooling


def embed(ctx: Context, texts: Sequence[Tokens], pooling: str | None = None) -> Iterator[Floats]:
    """The embedding of each text, in order: float32 [n_embd], or as wide as the model's dense
    layers make it; [n_tokens, n_embd] with pooling 'none'; the scores with 'rank'.

    `pooling`: see `pooling_of`. As many texts at a time as the context has sequences and room for;
    its sequences must be empty, and are so again after each of these times. UsageError for a text
    without tokens, ContextError for one longer than the context."""
    pooling = pooling_of(ctx, pooling)
    if not all(len(text) for text in texts):
        raise UsageError("a text without tokens has no embedding")
    done = 0
    while done < len(texts):
        some = texts[done : done + _n_fitting(ctx, texts[done:])]
        yield from _pooled(ctx, some, pooling)
        done += len(some)


def _n_fitting(ctx: Context, texts: Sequence[Tokens]) -> int:
    """How many of the first ones fit, at least one."""
    room = ctx.n_ctx - np.cumsum([len(text) for text in texts[: ctx.params.n_seq_max]])
    return max(int(np.count_nonzero(room >= 0)), 1)


def _pooled(ctx: Context, texts: Sequence[Tokens], pooling: str) -> Iterator[Floats]:
    by = _before_rank(ctx) if pooling == "rank" else pooling
    batch = join([_wanted(text, seq, by) for seq, text in enumerate(texts)])
    try:
        rows = ctx.embed_batch(batch)
    finally:
        for seq in range(len(texts)):
            ctx.seq_rm(seq, 0)
    if by in ("none", "mean"):
        ends = np.cumsum([len(text) for text in texts])
        if by == "none":
            yield from np.split(_after(ctx, rows, pooling), ends[:-1])
            return
        each = np.split(rows, ends[:-1])
        rows = np.stack([r.mean(axis=0, dtype=np.float64) for r in each]).astype(np.float32)
    yield from _after(ctx, rows, pooling)


def _after(ctx: Context, rows: Floats, pooling: str) -> Floats:
    """What the model does with rows [n, n_embd] behind the pooling, if anything."""
    g = ctx.builder(_alone(len(rows)))
    if not follows(g, pooling):
        return rows
    return ctx.run_alone(g, {build_pooled(g, len(rows), pooling): rows})


def _alone(n_rows: int) -> GraphShape:
    return GraphShape(n_rows, n_rows, 0, (), EMBEDDINGS)


def _before_rank(ctx: Context) -> str:
    named = ctx.hp.pooled.rank_by
    if named == "mean" or (not named and ctx.arch.name == "modern-bert"):
        return "mean"
    return "last" if _causal(ctx) else "cls"


def _wanted(text: Tokens, seq: int, pooling: str) -> Batch:
    """The text's tokens, with the rows that the pooling reads."""
    if pooling == "cls":
        batch = single(text, 0, seq, "none")
        return replace(batch, want=np.arange(batch.n_tokens) == 0)
    return single(text, 0, seq, "last" if pooling == "last" else "all")


def _causal(ctx: Context) -> bool:
    return ctx.arch.gives == LOGITS and ctx.arch.cache(ctx.hp).causal


def normalised(rows: Floats, how: str) -> Floats:
    """Rows [.., n] as they are ('none'), or each divided by its length ('l2'), its sum of absolute
    values ('l1') or its largest one ('max'). A row of zeros stays one."""
    if how == "none":
        return rows
    x = rows.astype(np.float64)
    if how == "l2":
        size = np.sqrt((x * x).sum(axis=-1, keepdims=True))
    elif how == "l1":
        size = np.abs(x).sum(axis=-1, keepdims=True)
    elif how == "max":
        size = np.abs(x).max(axis=-1, keepdims=True)
    else:
        raise UsageError(f"a norm is one of none, l2, l1, max, not '{how}'")
    return (x / np.where(size > 0, size, 1.0)).astype(np.float32)
