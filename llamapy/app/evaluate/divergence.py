"""What two models' answers to the same tokens say together, as llama-perplexity states it.

Every mean has the standard error of independent values, sqrt(variance / (n - 1)); what is computed
from two means takes their covariance into account. Sums are exact (math.fsum), so the block depends
on the values alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from llamapy.app.evaluate.perplexity import Chunk

KL_POINTS = (99.9, 99, 95, 90, 50, 10, 5, 1, 0.1)
DP_POINTS = (99.9, 99, 95, 90, 75, 50, 25, 10, 5, 1, 0.1)


class Divergence:
    """`add` windows in their order; `block` is about those so far. q: the model, p: the base."""

    def __init__(self) -> None:
        self.q: list[float] = []
        self.p: list[float] = []
        self.kl: list[float] = []
        self.n_same = 0

    def add(self, chunk: Chunk) -> None:
        self.q += chunk.each
        self.p += [b.nll for b in chunk.beside]
        self.kl += [b.kl for b in chunk.beside]
        self.n_same += sum(b.same_top for b in chunk.beside)

    def so_far(self) -> dict[str, Any]:
        """The short form, that goes with every window."""
        return {"ppl": self._ppl(self.q), "ln_ratio": self._ln_ratio(), "kl": _mean(self.kl)}

    def block(self) -> dict[str, Any]:
        dp = [math.exp(-q) - math.exp(-p) for q, p in zip(self.q, self.p, strict=True)]
        return {
            "n": len(self.q),
            **self._perplexities(),
            "kl": _mean(self.kl) | _points(self.kl, KL_POINTS),
            "delta_p": _mean(dp) | _points(dp, DP_POINTS),
            "delta_p_rms": _rms(dp),
            "same_top": self._same(),
        }

    def _perplexities(self) -> dict[str, Any]:
        (mq, vq), (mp, vp) = _moments(self.q), _moments(self.p)
        cov = self._covariance()
        ln_ratio = self._ln_ratio()
        ratio = _exp(mq - mp)
        q, p = _exp(mq), _exp(mp)
        spread = q * q * vq + p * p * vp - 2 * q * p * cov
        both = math.sqrt(vq * vp) if vq > 0 and vp > 0 else 0.0
        return {
            "ppl": self._ppl(self.q),
            "ppl_base": self._ppl(self.p),
            "correlation": cov / both if both else None,
            "ln_ratio": ln_ratio,
            "ratio": _value(ratio, _times(ratio, ln_ratio["error"])),
            "difference": _value(q - p, _root(spread)),
        }

    def _ppl(self, nll: Sequence[float]) -> dict[str, Any]:
        mean, variance = _moments(nll)
        ppl = _exp(mean)
        return _value(ppl, _times(ppl, _root(variance)))

    def _ln_ratio(self) -> dict[str, Any]:
        (mq, vq), (mp, vp) = _moments(self.q), _moments(self.p)
        return _value(mq - mp, _root(vq + vp - 2 * self._covariance()))

    def _covariance(self) -> float:
        """Of the two means."""
        n = len(self.q)
        mq, mp = math.fsum(self.q) / n, math.fsum(self.p) / n
        products = ((q - mq) * (p - mp) for q, p in zip(self.q, self.p, strict=True))
        return math.fsum(products) / n / (n - 1) if n > 1 else 0.0

    def _same(self) -> dict[str, Any]:
        n = len(self.q)
        share = self.n_same / n
        return _value(share, _root(share * (1 - share) / (n - 1) if n > 1 else None))


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its variance."""
    n = len(values)
    mean = math.fsum(values) / n
    return mean, math.fsum((x - mean) ** 2 for x in values) / n / (n - 1) if n > 1 else 0.0


def _root(variance: float | None) -> float | None:
    return None if variance is None or variance < 0 else math.sqrt(variance)


def _times(value: float, error: float | None) -> float | None:
    return None if error is None else value * error


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


def _value(value: float, error: float | None) -> dict[str, Any]:
    """None for what is too large to be said."""
    finite = error is not None and math.isfinite(error)
    return {"value": value if math.isfinite(value) else None, "error": error if finite else None}


def _mean(values: Sequence[float]) -> dict[str, Any]:
    mean, variance = _moments(values)
    return _value(mean, _root(variance))


def _points(values: Sequence[float], points: Iterable[float]) -> dict[str, Any]:
    """The largest, the smallest, and percentiles, between two values by their distance."""
    order = sorted(values)
    return {
        "max": order[-1],
        **{f"p{point:g}": _percentile(order, point / 100) for point in points},
        "min": order[0],
    }


def _percentile(order: Sequence[float], share: float) -> float:
    at = share * (len(order) - 1)
    low = min(int(at), len(order) - 1)
    high = min(low + 1, len(order) - 1)
    return order[low] + (at - low) * (order[high] - order[low])


def _rms(values: Sequence[float]) -> dict[str, Any]:
    mean, variance = _moments([x * x for x in values])
    rms = math.sqrt(mean)
    return _value(rms, math.sqrt(variance) / (2 * rms) if rms else None)
