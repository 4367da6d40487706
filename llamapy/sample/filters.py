"""Filters: candidates in, fewer candidates out, or other logits.

Each keeps at least `min_keep`, and always one. None changes its argument.
"""

from __future__ import annotations

import numpy as np

from llamapy.ffi.top import top_k as highest
from llamapy.ffi.weights import exp, log, total_weight, weights
from llamapy.sample.candidates import Candidates

HOTTEST, COLDEST = 1e30, 1e-30  # temperatures beyond which float32 would overflow


def top_k(c: Candidates, k: int, min_keep: int = 0) -> Candidates:
    """The `k` most likely, most likely first; of equal logits the lower ids. k <= 0: all of
    them.
    """
    if k <= 0:
        return c
    k = max(k, min_keep)
    if c.sorted or c.ids is not None or k >= len(c):
        return c.by_logit().take(slice(0, k))
    ids, logits = highest(c.logits, k)
    return Candidates(logits, ids, True)


def top_p(c: Candidates, p: float, min_keep: int = 0) -> Candidates:
    """The most likely whose probabilities sum up to `p` or more, no more than needed. p >= 1:
    all.
    """
    if p >= 1:
        return c
    enough = p * total_weight(c.logits)
    # Few candidates hold most of the mass: do not sort a whole vocabulary to find them.
    for k in (64, 1024, 16384, len(c)):
        head = top_k(c, min(k, len(c)))
        reached = np.cumsum(weights(head.logits)[0])
        if k >= len(c) or reached[-1] >= enough:
            break
    n = int(np.searchsorted(reached, enough)) + 1  # the first place where the sum is enough
    return head.take(slice(0, max(n, min_keep, 1))) if min_keep <= len(head) else top_k(c, min_keep)


def min_p(c: Candidates, p: float, min_keep: int = 0) -> Candidates:
    """Those at least `p` times as likely as the most likely one. p <= 0: all."""
    if p <= 0:
        return c
    kept = np.flatnonzero(c.logits >= c.logits.max() + np.float32(log(p)))
    if len(kept) < min_keep:
        return top_k(c, min_keep)
    return c.take(kept)


def typical(c: Candidates, p: float, min_keep: int = 0) -> Candidates:
    """Locally typical sampling (arXiv 2202.00666): by nearness of a token's surprise to the
    entropy, until the probabilities sum up to more than `p`. p >= 1: all. Leaves them in that
    order."""
    if p >= 1:
        return c
    probs, surprise = c.probs(), c.surprise()
    order = np.argsort(np.abs(surprise - (probs * surprise).sum()), kind="stable")
    over = np.flatnonzero(np.cumsum(probs[order]) > p)
    n = int(over[0]) + 1 if len(over) else len(order)
    return c.take(order[: max(n, min_keep)], sorted=False)


def top_n_sigma(c: Candidates, n: float, min_keep: int = 0) -> Candidates:
    """Those within `n` standard deviations of the highest logit (arXiv 2411.07641); the deviation
    is the population's, over logits that are not -inf. n <= 0: all."""
    if n <= 0:
        return c
    finite = c.logits[np.isfinite(c.logits)].astype(np.float64)
    bound = float(c.logits.max()) - n * float(finite.std())
    kept = np.flatnonzero(c.logits >= bound)
    return c.take(kept) if len(kept) >= min_keep else top_k(c, min_keep)


def xtc(
    c: Candidates, probability: float, threshold: float, chance: float, min_keep: int = 0
) -> Candidates:
    """Exclude top choices: of the tokens at least `threshold` likely, all but the least likely one
    go.

    Acts when `chance`, a draw in [0, 1), is at most `probability`, and at least `min_keep` stay.
    """
    if probability <= 0 or threshold > 0.5 or len(c) < 2 or chance > probability:
        return c
    above = np.flatnonzero(c.probs() >= threshold)
    if len(above) < 2 or len(c) - (len(above) - 1) < min_keep:
        return c
    ids = above if c.ids is None else c.ids[above]
    last = above[np.lexsort((ids, -c.logits[above]))[-1]]
    kept = np.ones(len(c), np.bool_)
    kept[above], kept[last] = False, True
    return c.take(np.flatnonzero(kept))


def temperature(
    c: Candidates, temp: float, spread: float = 0.0, exponent: float = 1.0
) -> Candidates:
    """Logits, less the highest, divided by `temp`; temp <= 0 keeps the most likely one only.

    `spread` > 0: the temperature is between temp - spread and temp + spread, by the entropy of the
    candidates relative to its maximum, to the power of `exponent`.
    """
    if spread > 0:
        temp = _dynamic(c, temp, spread, exponent)
    if temp <= 0:
        return top_k(c, 1)
    with np.errstate(over="ignore"):  # the highest is 0 then; others may fall to -inf
        logits = (c.logits - c.logits.max()) / np.float32(min(max(temp, COLDEST), HOTTEST))
    return Candidates(logits, c.ids, c.sorted)


def _dynamic(c: Candidates, temp: float, spread: float, exponent: float) -> float:
    low, high = max(0.0, temp - spread), temp + spread
    if len(c) < 2:
        return temp
    share = min(float((c.probs() * c.surprise()).sum()) / log(len(c)), 1.0)
    power = exp(exponent * log(share)) if share > 0 else float(exponent == 0)
    return low + (high - low) * power


def draw(c: Candidates, u: float) -> int:
    """The token at `u` in [0, 1) of the cumulative probabilities."""
    return c.id(place(c, u))


def place(c: Candidates, u: float) -> int:
    """Where it stands among the candidates."""
    reached, _ = weights(c.logits)
    np.cumsum(reached, out=reached)
    at = int(np.searchsorted(reached, u * reached[-1], side="right"))
    return min(at, len(c) - 1)
