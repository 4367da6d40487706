"""What a handful of samples says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def summary(values: Sequence[float]) -> dict[str, float]:
    """mean, stddev (of a sample: n - 1; 0 for one value), median, MAD (median distance from the
    median, unscaled), min and max."""
    mean, median = math.fsum(values) / len(values), statistics.median(values)
    square = math.fsum((v - mean) ** 2 for v in values)
    return {
        "mean": mean,
        "stddev": math.sqrt(square / (len(values) - 1)) if len(values) > 1 else 0.0,
        "median": median,
        "mad": statistics.median(abs(v - median) for v in values),
        "min": min(values),
        "max": max(values),
    }


STEADY = 0.05  # times agree when they differ by no more than this share


def agree(ns: Sequence[int]) -> bool:
    """Whether the last two times are the same within STEADY."""
    return len(ns) > 1 and abs(ns[-1] - ns[-2]) <= STEADY * min(ns[-2:])


def steady(ns: Sequence[int]) -> bool | None:
    """Whether the MAD is at most STEADY of the median. None for fewer than three samples, which
    cannot tell."""
    if len(ns) < 3:
        return None
    found = summary(ns)
    return found["mad"] <= STEADY * found["median"]
