"""Log probabilities of the most likely tokens."""

from __future__ import annotations

import numpy as np

from llamapy.ffi.weights import log, total_weight
from llamapy.sample.candidates import Candidates, Floats, Ids, Probs
from llamapy.sample.filters import top_k


def logprobs(logits: Floats, k: int) -> tuple[Ids, Probs]:
    """Ids `[k]` and log probabilities `[k]` of the `k` most likely of `logits` `[n_vocab]`, most
    likely first, of equal ones the lower id."""
    head = top_k(Candidates(logits), k)
    ids = np.arange(len(head)) if head.ids is None else head.ids
    return ids, (head.logits - np.float64(head.logits[0])) - log(total_weight(logits))
