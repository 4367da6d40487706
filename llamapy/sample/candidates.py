"""The tokens still in the running."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llamapy.ffi.weights import log, total_weight, weights

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Probs = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Candidates:
    """`logits` float32 `[n]` of the tokens `ids` int64 `[n]`; None means all tokens, 0 to n - 1.

    `sorted`: logits never rise, and of equal ones the lower id comes first. Never changed in place.
    """

    logits: Floats
    ids: Ids | None = None
    sorted: bool = False

    def __len__(self) -> int:
        return len(self.logits)

    def id(self, at: int) -> int:
        return at if self.ids is None else int(self.ids[at])

    def take(self, at: Ids | slice, *, sorted: bool | None = None) -> Candidates:
        """Those at the places `at`, in that order. A slice or rising places keep the order."""
        if self.ids is None:
            ids = np.arange(len(self.logits))[at] if isinstance(at, slice) else at
        else:
            ids = self.ids[at]
        return Candidates(self.logits[at], ids, self.sorted if sorted is None else sorted)

    def changed(self, logits: Floats) -> Candidates:
        """The same tokens with other logits, in no known order."""
        return Candidates(logits, self.ids)

    def by_logit(self) -> Candidates:
        """Most likely first."""
        if self.sorted:
            return self
        ids = np.arange(len(self)) if self.ids is None else self.ids
        if len(self) < 512:
            return self.take(np.lexsort((ids, -self.logits)), sorted=True)
        # The negated logit as an integer of the same order, above the id: one plain sort does it.
        bits = (np.float32(0) - self.logits).view(np.int32).astype(np.int64)
        keys = np.sort((_ordered(bits) << 32) | ids)
        bits = _ordered(keys >> 32).astype(np.int32)
        return Candidates(np.float32(0) - bits.view(np.float32), keys & 0xFFFFFFFF, True)

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """(places, which): the token `ids[which[i]]` stands at `places[i]`; absent ones are left
        out.
        """
        if self.ids is None:
            which = np.flatnonzero((ids >= 0) & (ids < len(self.logits)))
            return ids[which], which
        order = np.argsort(self.ids)
        near = np.minimum(np.searchsorted(self.ids, ids, sorter=order), len(order) - 1)
        places = order[near]
        which = np.flatnonzero(self.ids[places] == ids)
        return places[which], which

    def probs(self) -> Probs:
        """Softmax in float64 `[n]`."""
        e, total = weights(self.logits)
        e /= total
        return e

    def surprise(self) -> Probs:
        """-log of the probabilities in float64 `[n]`, where they are nearly 0 no more than 708."""
        below = np.float64(self.logits.max()) - self.logits
        return np.minimum(below + log(total_weight(self.logits)), 708.0)


def _ordered(bits: Ids) -> Ids:
    """The bits of a float32 as an integer that sorts like the float; its own inverse."""
    return bits ^ ((bits >> 63) & 0x7FFFFFFF)
