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
