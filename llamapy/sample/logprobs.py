"""Log probabilities of the most likely tokens."""

from __future__ import annotations

import numpy as np

from llamapy.sample.candidates import Candidates, Floats, Ids, Probs
from llamapy.sample.filters import top_k


def log_softmax(logits: Floats) -> Probs:
    """log(softmax) over the last axis in float64, same shape."""
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    out: Probs = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return out


def logprobs(logits: Floats, k: int) -> tuple[Ids, Probs]:
    """Ids `[k]` and log probabilities `[k]` of the `k` most likely of `logits` `[n_vocab]`, most
    likely first, of equal ones the lower id."""
    head = top_k(Candidates(logits), k)
    top = np.float64(head.logits[0])
    total = np.exp(logits.astype(np.float64) - top).sum()
    ids = np.arange(len(head)) if head.ids is None else head.ids
    return ids, head.logits.astype(np.float64) - top - np.log(total)
