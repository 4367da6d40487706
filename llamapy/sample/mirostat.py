"""Mirostat (arXiv 2007.14966): holds the surprise of the text near a target, in bits per token."""

from __future__ import annotations

import numpy as np

from llamapy.ffi.weights import exp, log
from llamapy.sample.candidates import Candidates, Probs
from llamapy.sample.filters import place

_HEAD = 100  # most likely tokens from which version 1 estimates Zipf's exponent
_LN2 = 0.6931471805599453  # nats per bit


class Mirostat:
    """`mu`, the surprise allowed, starts at twice the target and follows what was seen."""

    def __init__(self, version: int, target: float, rate: float, n_vocab: int) -> None:
        self.version, self.target, self.rate, self.n_vocab = version, target, rate, n_vocab
        self.mu = 2 * target

    def sample(self, c: Candidates, u: float) -> int:
        """One token of `c` for the draw `u`; moves `mu`."""
        c = c.by_logit()
        probs = c.probs()
        n = self._keep_zipf(c, probs) if self.version == 1 else self._keep_surprise(probs)
        kept = c.take(slice(0, n))
        at = place(kept, u)
        self.mu -= self.rate * (float(kept.surprise()[at]) / _LN2 - self.target)
        return kept.id(at)

    def _keep_surprise(self, probs: Probs) -> int:
        """Version 2: those no more surprising than `mu`."""
        over = np.flatnonzero(probs < exp(-self.mu * _LN2))
        return max(int(over[0]) if len(over) else len(probs), 1)

    def _keep_zipf(self, c: Candidates, probs: Probs) -> int:
        """Version 1: the k for which a Zipf law of the estimated exponent has this surprise."""
        n = int(np.count_nonzero(probs[:_HEAD]))
        if n < 2:
            return 1
        t = np.array([log((rank + 1) / rank) for rank in range(1, n)])
        b = -np.diff(c.logits[:n].astype(np.float64))
        exponent = float((t * b).sum() / (t * t).sum())
        epsilon = exponent - 1
        if exponent <= 0 or epsilon == 0:
            return len(probs)
        base = epsilon * exp(self.mu * _LN2) / (1 - exp(-epsilon * log(self.n_vocab)))
        k = exp(log(base) / exponent) if base > 0 else 1.0
        return int(min(max(k, 1.0), len(probs)))
