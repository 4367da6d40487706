"""Mirostat (arXiv 2007.14966): holds the surprise of the text near a target, in bits per token."""

from __future__ import annotations

import math

import numpy as np

from llamapy.sample.candidates import Candidates, Probs
from llamapy.sample.filters import draw

_HEAD = 100  # most likely tokens from which version 1 estimates Zipf's exponent


class Mirostat:
    """`mu`, the surprise allowed, starts at twice the target and follows what was seen."""

    def __init__(self, version: int, target: float, rate: float, n_vocab: int) -> None:
        self.version, self.target, self.rate, self.n_vocab = version, target, rate, n_vocab
        self.mu = 2 * target

    def sample(self, c: Candidates, u: float) -> int:
        """One token of `c` for the draw `u`; moves `mu`."""
        c = c.by_logit()
        probs = c.probs()
        n = self._keep_zipf(probs) if self.version == 1 else self._keep_surprise(probs)
        kept = c.take(slice(0, n))
        id = draw(kept, u)
        shares = kept.probs()
        at = int(np.flatnonzero(np.arange(n) == id if kept.ids is None else kept.ids == id)[0])
        self.mu -= self.rate * (-math.log2(shares[at]) - self.target)
        return id

    def _keep_surprise(self, probs: Probs) -> int:
        """Version 2: those no more surprising than `mu`."""
        with np.errstate(divide="ignore"):
            over = np.flatnonzero(-np.log2(probs) > self.mu)
        return max(int(over[0]) if len(over) else len(probs), 1)

    def _keep_zipf(self, probs: Probs) -> int:
        """Version 1: the k for which a Zipf law of the estimated exponent has this surprise."""
        head = probs[:_HEAD]
        head = head[head > 0]
        if len(head) < 2:
            return 1
        rank = np.arange(1, len(head), dtype=np.float64)
        t = np.log((rank + 1) / rank)
        b = np.log(head[:-1] / head[1:])
        exponent = float((t * b).sum() / (t * t).sum())
        epsilon = exponent - 1
        if exponent <= 0 or epsilon == 0:
            return len(probs)
        base = epsilon * 2.0**self.mu / (1 - self.n_vocab**-epsilon)
        k = base ** (1 / exponent) if base > 0 else 1.0
        return int(min(max(k, 1.0), len(probs)))
