"""What is wrong with a batch, before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from llamapy.base.errors import ContextError, UsageError
from llamapy.loader.hparams import HParams
from llamapy.runtime.batch import Batch


class Where(Protocol):
    """The context it is for."""

    hp: HParams

    @property
    def n_longest(self) -> int: ...
    def n_past(self, seq_id: int = 0) -> int: ...


def check(batch: Batch, ctx: Where, twins: Callable[[int], set[int]], n_places: int) -> None:
    """UsageError for no tokens, ids that are none, positions that do not continue a sequence or
    sequences that differ where a token is of both; ContextError where they end behind the context
    or behind the `n_places` positions that the model has learned (0: it has not)."""
    if batch.n_tokens == 0:
        raise UsageError("nothing to decode: no tokens")
    ids = batch.tokens.tolist()
    low, high = min(ids), max(ids)
    if low < 0 or high >= ctx.hp.n_vocab:
        bad = low if low < 0 else high
        raise UsageError(f"token {bad} is outside the vocabulary of {ctx.hp.n_vocab}")
    if max(map(len, batch.seqs)) > 1:
        _check_alike(batch, ctx, twins)
    next_pos: dict[int, int] = {}
    for pos, seqs in zip(batch.pos.tolist(), batch.seqs, strict=True):
        for seq in seqs:
            want = next_pos.get(seq, -1)
            want = ctx.n_past(seq) if want < 0 else want
            if pos != want:
                raise UsageError(f"sequence {seq} continues at position {want}, not {pos}")
            next_pos[seq] = pos + 1
    longest = max(next_pos.values())
    if n_places and longest > n_places:
        raise ContextError(
            f"{batch.n_tokens} tokens end at position {longest}, and this model has learned "
            f"{n_places} positions, no more"
        )
    if longest > ctx.n_longest:
        raise ContextError(
            f"{batch.n_tokens} tokens end at position {longest} of a context of "
            f"{ctx.n_longest}; use a larger --ctx-size"
        )


def _check_alike(batch: Batch, ctx: Where, twins: Callable[[int], set[int]]) -> None:
    """A token of several sequences is computed once, from the cells of the first: the others must
    have the same, in the memory and in the batch before it."""
    alike: dict[int, set[int]] = {}  # by sequence: those that are the same as it
    for seqs in batch.seqs:
        for seq in seqs:
            if len(seqs) == 1:
                alike[seq] = {seq}
                continue
            ctx.n_past(seq)  # which checks that there is such a sequence
            same = alike[seq] if seq in alike else twins(seq)
            if not same.issuperset(seqs):
                other = next(s for s in seqs if s not in same)
                raise UsageError(f"sequences {seq} and {other} differ: no token is of both")
            alike[seq] = same.intersection(seqs)
