"""Steps that look back: repetition penalties and DRY. They change logits and remove nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from llamapy.ffi.weights import exp, log
from llamapy.sample.candidates import Candidates
from llamapy.sample.params import SamplerParams

_MAX = 1e30  # as good as a ban, yet far from the largest float32


def add_bias(c: Candidates, bias: Mapping[int, float]) -> Candidates:
    """Adds a number to the logits of some ids; -inf forbids one."""
    return _subtract(c, {id: -value for id, value in bias.items()})


def repetition(c: Candidates, window: Iterable[int], p: SamplerParams) -> Candidates:
    """For each id of `window`: a positive logit is divided by the repeat penalty, another
    multiplied; then presence + count * frequency is subtracted."""
    counts = Counter(window)
    ids = np.fromiter(counts.keys(), np.int64, len(counts))
    places, which = c.find(ids)
    count = np.fromiter(counts.values(), np.float32, len(counts))[which]
    logits, repeat = c.logits.copy(), np.float32(p.repeat_penalty)
    old = logits[places]
    old = np.where(old <= 0, old * repeat, old / repeat)
    less = count * np.float32(p.frequency_penalty) + np.float32(p.presence_penalty)
    logits[places] = old - less
    return c.changed(logits)


def _subtract(c: Candidates, amounts: Mapping[int, float]) -> Candidates:
    if not amounts:
        return c
    places, which = c.find(np.fromiter(amounts.keys(), np.int64, len(amounts)))
    logits = c.logits.copy()
    logits[places] -= np.fromiter(amounts.values(), np.float32, len(amounts))[which]
    return c.changed(logits)


# ---- DRY --------------------------------------------------------------------------------------

# A breaker begins with a token of the table and goes on with one of its tails (often empty).
Breakers = Mapping[int, Sequence[tuple[int, ...]]]


def dry(c: Candidates, window: Sequence[int], p: SamplerParams, breakers: Breakers) -> Candidates:
    """Don't repeat yourself: a token that would continue a repetition of the end of `window`
    (oldest first) of `length` tokens loses multiplier * base ^ (length - allowed length)."""
    allowed = p.dry_allowed_length
    lengths = continuations(window, allowed, _reach(window, breakers))
    rise = log(p.dry_base)

    def amount(length: int) -> float:
        return min(p.dry_multiplier * exp(rise * (length - allowed)), _MAX)

    return _subtract(c, {id: amount(length) for id, length in lengths.items()})


def continuations(window: Sequence[int], allowed: int, reach: int) -> dict[int, int]:
    """For each token that once followed what `window` now ends with: the longest such end, in
    tokens, at most `reach`, where it is at least `allowed`."""
    if reach < max(allowed, 1) or len(window) <= allowed:
        return {}
    latest = list(window)[::-1]
    found: dict[int, int] = {}
    for at, same in enumerate(_same_start(latest)):
        length = min(same, reach)
        if at > 0 and length >= max(allowed, 1):
            follower = latest[at - 1]
            found[follower] = max(found.get(follower, 0), length)
    return found


def _reach(window: Sequence[int], breakers: Breakers) -> int:
    """How far back a repetition may go: to the latest breaker in `window`, not into it."""
    latest = window[::-1]
    for at, id in enumerate(latest):
        fits = [
            len(tail)
            for tail in breakers.get(id, ())
            if len(tail) <= at and all(latest[at - 1 - i] == t for i, t in enumerate(tail))
        ]
        if fits:
            return at - max(fits)
    return len(window)


def _same_start(s: Sequence[int]) -> list[int]:
    """For each place the length of the common beginning of `s` and `s` from there (the Z
    function).
    """
    z = [len(s)] + [0] * (len(s) - 1)
    left = right = 0
    for i in range(1, len(s)):
        if i < right:
            z[i] = min(right - i, z[i - left])
        while i + z[i] < len(s) and s[z[i]] == s[i + z[i]]:
            z[i] += 1
        if i + z[i] > right:
            left, right = i, i + z[i]
    return z
