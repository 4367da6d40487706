"""Two reports held against each other: by how much B is faster than A, and how sure that is.

Method. Times of a test in A and B are taken to differ by a factor. Its estimate is the median of
all quotients a_i / b_j (Hodges and Lehmann's estimator on the logarithms); its interval is between
two of their order statistics, chosen by the exact distribution of the Mann-Whitney statistic, after
M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd ed., 4.2 and 4.3.
No shape of the distribution is assumed, nothing is drawn at random. It holds for samples that are
independent: a phase of the machine that lasts a whole report is not in it.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from llamapy.base.errors import UsageError

Report = dict[str, Any]
SCHEMA_VERSION = 1
LEVEL = 0.95
EXACT = 2500  # pairs of samples up to which probabilities are counted
MOST = 1000  # samples of a test
METHOD = "Hodges-Lehmann ratio, exact Mann-Whitney interval"
# What a test's times are of, by kind: name of the figure, list of samples.
FIGURES = {
    "tests": (("", "samples_ns"),),
    "batched": (
        ("prompts", "prompt_samples_ns"),
        ("generation", "gen_samples_ns"),
        ("all", "samples_ns"),
    ),
    "end_to_end": (("first token", "first_samples_ns"), ("all", "samples_ns")),
}
# Conditions that must be the same for a ratio to say something of the program.
MACHINE = (
    "cpu", "isa", "cpus_allowed", "physical_cores", "cgroup_quota_cpus", "governor",
    "transparent_hugepage", "environment",
)  # fmt: skip
OF_TEST = (
    "model_hash", "model_type", "n_threads", "n_batch", "n_ubatch", "type_k", "type_v",
    "load_mode", "repack",
)  # fmt: skip
SHAPES: dict[str, tuple[type, ...]] = {
    "llamapy": (str,), "cpu": (str, type(None)), "isa": (str,), "cpus_allowed": (int,),
    "cgroup_quota_cpus": (int, float, type(None)), "governor": (str, type(None)),
    "load_average": (list, type(None)), "load_average_after": (list, type(None)),
    "throttled_us": (int, type(None)), "environment": (dict,),
}  # fmt: skip
WHERE = ("LLAMAPY_CACHE", "LLAMAPY_MODELS", "LLAMAPY_LIB")  # not how fast
# Those that may differ, and are told.
TOLD = ("llamapy", "system", "python", "load_average", "load_average_after", "throttled_us")


class Interval(NamedTuple):
    """`level` is what it covers: less than was asked for where samples are few."""

    ratio: float
    low: float
    high: float
    level: float


def interval(a: Sequence[int], b: Sequence[int], level: float = LEVEL) -> Interval:
    """How many times as fast as a's b's was, of times of the same work."""
    quotients = sorted(x / y for x in a for y in b)
    c, covered = _order_statistic(len(a), len(b), level)
    return Interval(statistics.median(quotients), quotients[c - 1], quotients[-c], covered)


def _order_statistic(m: int, n: int, level: float) -> tuple[int, float]:
    """The interval begins at the c-th smallest of the m * n quotients and ends at the c-th largest;
    c, and what it covers. Of large samples by the normal approximation."""
    if m * n > EXACT:
        wide = statistics.NormalDist().inv_cdf((1 + level) / 2) * math.sqrt(
            m * n * (m + n + 1) / 12
        )
        return max(int(m * n / 2 - wide), 1), level
    below = _mann_whitney(m, n)  # below[u]: the probability of a statistic <= u
    c = max(sum(2 * p <= 1 - level for p in below), 1)
    return c, max(1 - 2 * below[c - 1], 0.0)


def _mann_whitney(m: int, n: int) -> list[float]:
    """Cumulative probabilities of the statistic of samples of m and n, each ranking as likely."""
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):  # times (1 - x^(n + i)) / (1 - x^i): how many rankings give each sum
        for u in range(m * n, n + i - 1, -1):
            counts[u] -= counts[u - n - i]
        for u in range(i, m * n + 1):
            counts[u] += counts[u - i]
    total, out, so_far = math.comb(m + n, m), [], 0
    for count in counts:
        so_far += count
        out.append(so_far / total)
    return out


def read_report(path: str, raw: bytes) -> Report:
    """A report of `bench --json`. UsageError for anything else."""
    try:
        report = json.loads(raw)
        if report["schema_version"] != 2:
            raise ValueError(f"schema_version {report['schema_version']}")
        for name, types in SHAPES.items():
            if not isinstance(report["conditions"][name], types):
                raise ValueError(f"conditions: {name}")
        kinds = [name for name in FIGURES if report.get(name)]
        for name in kinds:
            for test in report[name]:
                _check_test(test, [samples for _, samples in FIGURES[name]])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as e:
        raise UsageError(f"{path} is no report of 'llamapy bench --json' ({e})") from e
    if not kinds:
        raise UsageError(f"{path} has no tests")
    return dict(report)


def _check_test(test: Mapping[str, Any], lists: Sequence[str]) -> None:
    for name in ("test", "model_type"):
        if not isinstance(test[name], str):
            raise ValueError(name)
    for name in lists:
        ns = test[name]
        if len(ns) > MOST or not all(type(v) is int and v >= 0 for v in ns):
            raise ValueError(f"{name} of {test['test']}")


def compare(a: Report, b: Report, names: tuple[str, str], *, anyway: bool = False) -> Report:
    """Test by test. UsageError when a condition differs, by name, unless `anyway`, and when the two
    have no test in common."""
    pairs = [(kind, *pair) for kind in FIGURES for pair in _pairs(a.get(kind), b.get(kind))]
    if not pairs:
        raise UsageError(f"{names[0]} and {names[1]} have no test in common")
    differ = list(_differences(a["conditions"], b["conditions"], MACHINE, "machine"))
    for _, x, y in pairs:
        differ += [d for d in _differences(x, y, OF_TEST, x["test"]) if d not in differ]
    if differ and not anyway:
        told = "; ".join(f"{d['name']} {d['a']} and {d['b']} ({d['of']})" for d in differ[:4])
        more = f" and {len(differ) - 4} more" if len(differ) > 4 else ""
        raise UsageError(
            f"{names[0]} and {names[1]} were taken under different conditions: {told}{more}; "
            "--anyway compares them all the same"
        )
    lonely = {
        side: [t["test"] for kind in FIGURES for t in of.get(kind, ()) if not _met(t, pairs, i)]
        for i, (side, of) in enumerate((("a", a), ("b", b)), 1)
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "command": "bench --compare",
        "method": METHOD,
        "level": LEVEL,
        "a": {"path": names[0], **{k: a["conditions"].get(k) for k in (*MACHINE, *TOLD)}},
        "b": {"path": names[1], **{k: b["conditions"].get(k) for k in (*MACHINE, *TOLD)}},
        "different": differ,
        "only": lonely,
        "comparisons": [row for kind, x, y in pairs for row in _compared(kind, x, y)],
    }


def _met(test: Report, pairs: Sequence[tuple[str, Report, Report]], side: int) -> bool:
    return any(pair[side] is test for pair in pairs)


def _pairs(a: Sequence[Report] | None, b: Sequence[Report] | None) -> list[tuple[Report, Report]]:
    """Tests of the same name: first those whose conditions agree, then whichever are left, in
    order."""
    left, out = list(b or ()), []
    waiting = []
    for x in a or ():
        same = [y for y in left if y["test"] == x["test"] and not _any_differs(x, y)]
        if same:
            left = [y for y in left if y is not same[0]]
            out.append((x, same[0]))
        else:
            waiting.append(x)
    for x in waiting:
        other = next((y for y in left if y["test"] == x["test"]), None)
        if other is not None:
            left = [y for y in left if y is not other]
            out.append((x, other))
    return out


def _any_differs(x: Report, y: Report) -> bool:
    return any(True for _ in _differences(x, y, OF_TEST, ""))


def _differences(
    x: Mapping[str, Any], y: Mapping[str, Any], names: Sequence[str], of: str
) -> Iterator[Report]:
    for name in names:
        one, other = _condition(x, name), _condition(y, name)
        if one != other:
            yield {"name": name, "a": one, "b": other, "of": of}


def _condition(row: Mapping[str, Any], name: str) -> Any:
    value = row.get(name)
    if not isinstance(value, dict):
        return value
    if name == "repack":
        return value.get("done", value.get("asked"))
    return {k: v for k, v in value.items() if k not in WHERE}


def _compared(kind: str, x: Report, y: Report) -> Iterator[Report]:
    for figure, samples in FIGURES[kind]:
        if not x[samples] or not y[samples] or not min(*x[samples], *y[samples]):
            continue  # no such part: a test without a prompt
        found = interval(x[samples], y[samples])
        yield {
            "test": x["test"],
            "figure": figure,
            "model_type": x.get("model_type"),
            "a_median_ns": statistics.median(x[samples]),
            "b_median_ns": statistics.median(y[samples]),
            "a_samples": len(x[samples]),
            "b_samples": len(y[samples]),
            **found._asdict(),
            "differs": found.low > 1 or found.high < 1,
            "a_steady": x.get("steady"),
            "b_steady": y.get("steady"),
        }
