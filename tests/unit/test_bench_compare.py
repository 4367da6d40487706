"""Ratios of speed and their intervals; what must not be compared is refused by name."""

from __future__ import annotations

import json
import math
import random
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from llamapy.app.bench.compare import (
    _mann_whitney,
    _order_statistic,
    compare,
    interval,
    read_report,
)
from llamapy.base.errors import UsageError
from llamapy.cli.main import main

CONDITIONS: dict[str, Any] = {
    "llamapy": "1", "cpu": "X", "isa": "avx2", "cpus_allowed": 2, "physical_cores": 2,
    "cgroup_quota_cpus": None, "governor": None, "transparent_hugepage": "always",
    "environment": {}, "load_average": [0.0, 0.0, 0.0], "load_average_after": [0.5, 0.0, 0.0],
    "throttled_us": 0,
}  # fmt: skip
TEST: dict[str, Any] = {
    "test": "pp512", "model_hash": "ab", "model_type": "m", "n_threads": 2, "n_batch": 2048,
    "n_ubatch": 512, "type_k": "f16", "type_v": "f16", "load_mode": "mmap",
    "repack": {"done": True}, "steady": True, "samples_ns": [100, 101, 102, 103, 104],
}  # fmt: skip


def report(*tests: dict[str, Any], **conditions: Any) -> dict[str, Any]:
    rows = [{**TEST, **t} for t in tests or ({},)]
    return {"schema_version": 2, "conditions": {**CONDITIONS, **conditions}, "tests": rows}


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 3), (5, 4), (6, 2)])
def test_the_distribution_is_that_of_all_rankings(m: int, n: int) -> None:
    ranks = range(1, m + n + 1)
    sums = [sum(c) - m * (m + 1) // 2 for c in combinations(ranks, m)]
    want = [sum(s <= u for s in sums) / len(sums) for u in range(m * n + 1)]
    assert _mann_whitney(m, n) == pytest.approx(want)


def test_order_statistics_as_tables_have_them() -> None:
    """Critical values at 0.05, two-sided: 2 for (5, 5), 13 for (8, 8), 23 for (10, 10)."""
    for m, n, critical in ((5, 5, 2), (8, 8, 13), (10, 10, 23), (4, 4, 0)):
        c, covers = _order_statistic(m, n, 0.95)
        assert c == critical + 1 and 0.95 <= covers < 1
    assert _order_statistic(3, 3, 0.95) == (1, pytest.approx(0.9))  # as much as there is
    assert _order_statistic(1, 1, 0.95) == (1, 0.0)
    exact, near = _order_statistic(50, 50, 0.95)[0], _order_statistic(50, 51, 0.95)[0]
    assert 0 <= near - exact < 50


def test_a_ratio_and_its_interval() -> None:
    got = interval([200, 210, 220], [100, 105, 110])
    assert got.ratio == pytest.approx(2.0)
    assert (got.low, got.high) == (200 / 110, 220 / 100) and got.level == pytest.approx(0.9)
    same = interval([5, 6, 7, 8], [5, 6, 7, 8])
    assert same.ratio == 1.0 and same.low < 1 < same.high


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    rng = random.Random(1)

    def times(scale: float, n: int) -> list[int]:
        return [int(scale * math.exp(rng.gauss(0, 0.1))) for _ in range(n)]

    found = [interval(times(1.2e9, 5), times(1e9, 6)) for _ in range(1000)]
    held = sum(i.low <= 1.2 <= i.high for i in found) / len(found)
    assert 0.955 < held < 0.985  # 0.970


def test_faster_slower_and_not_known() -> None:
    a = report({"test": "one"}, {"test": "two"}, {"test": "three"})
    b = report(
        {"test": "two", "samples_ns": [150, 151, 152, 153, 154]},
        {"test": "one", "samples_ns": [50, 51, 52, 53, 54], "steady": False},
        {"test": "four"},
    )
    got = compare(a, b, ("a.json", "b.json"))
    rows = {row["test"]: row for row in got["comparisons"]}
    assert rows.keys() == {"one", "two"}
    assert rows["one"]["ratio"] == pytest.approx(102 / 52) and rows["one"]["differs"]
    assert rows["one"]["low"] > 1.8 and rows["one"]["b_steady"] is False
    assert rows["two"]["high"] < 1 and rows["two"]["differs"]
    assert got["only"] == {"a": ["three"], "b": ["four"]} and got["different"] == []
    (same,) = compare(report(), report(), ("a", "b"))["comparisons"]
    assert same["ratio"] == 1.0 and not same["differs"]


@pytest.mark.parametrize(
    ("test", "conditions", "says"),
    [
        ({"model_hash": "cd"}, {}, "model_hash ab and cd (pp512)"),
        ({"n_threads": 1}, {}, "n_threads 2 and 1 (pp512)"),
        ({"repack": {"done": False}}, {}, "repack True and False (pp512)"),
        ({}, {"isa": "scalar"}, "isa avx2 and scalar (machine)"),
        ({}, {"cgroup_quota_cpus": 1.5}, "cgroup_quota_cpus None and 1.5 (machine)"),
        ({}, {"governor": "powersave"}, "governor None and powersave (machine)"),
        (
            {},
            {"environment": {"LLAMAPY_VERIFY": "1"}},
            "environment {} and {'LLAMAPY_VERIFY': '1'}",
        ),
    ],
)
def test_other_conditions_are_refused(
    test: dict[str, Any], conditions: dict[str, Any], says: str
) -> None:
    a, b = report(), report(test, **conditions)
    with pytest.raises(UsageError) as e:
        compare(a, b, ("a.json", "b.json"))
    assert says in str(e.value) and "a.json and b.json" in str(e.value)
    got = compare(a, b, ("a.json", "b.json"), anyway=True)
    assert len(got["different"]) == 1 and len(got["comparisons"]) == 1


def test_what_changes_no_speed_may_differ() -> None:
    b = report({}, environment={"LLAMAPY_CACHE": "/x"}, llamapy="2", load_average=[3.0, 0, 0])
    assert compare(report(), b, ("a", "b"))["different"] == []


def test_settings_that_vary_inside_a_report_meet_their_like() -> None:
    ones = [{"n_threads": n, "samples_ns": [100 * n + i for i in range(5)]} for n in (1, 2, 4)]
    got = compare(report(*ones), report(*ones[::-1]), ("a", "b"))
    assert [row["ratio"] for row in got["comparisons"]] == [1.0] * 3 and got["different"] == []
    got = compare(report(*ones), report(*ones[:2]), ("a", "b"))
    assert len(got["comparisons"]) == 2 and got["only"] == {"a": ["pp512"], "b": []}
    with pytest.raises(UsageError, match="no test in common"):
        compare(report({"test": "x"}), report({"test": "y"}), ("a", "b"))


def test_kinds_with_several_figures() -> None:
    times = {"samples_ns": [9] * 5, "prompt_samples_ns": [0] * 5, "gen_samples_ns": [9] * 5}
    a = {**report(), "tests": [], "batched": [{**TEST, **times}]}
    a["end_to_end"] = [{**TEST, "first_samples_ns": [4] * 5}]
    rows = compare(a, a, ("a", "b"))["comparisons"]
    assert [row["figure"] for row in rows] == ["generation", "all", "first token", "all"]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"no", "is no report of 'llamapy bench --json'"),
        (b"[]", "is no report"),
        (b'{"schema_version": 1}', "schema_version 1"),
        (b"[" * 100000, "is no report"),
        (json.dumps({**report(), "tests": []}).encode(), "has no tests"),
        (json.dumps(report({"samples_ns": [1.5]})).encode(), "samples_ns of pp512"),
        (json.dumps(report({"samples_ns": [1] * 2000})).encode(), "samples_ns of pp512"),
        (json.dumps(report({"model_type": 3})).encode(), "model_type"),
        (json.dumps(report({}, isa=None)).encode(), "conditions: isa"),
    ],
)
def test_no_report(raw: bytes, says: str) -> None:
    with pytest.raises(UsageError, match="x.json") as e:
        read_report("x.json", raw)
    assert says in str(e.value)


def test_as_a_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text(json.dumps(report()))
    b.write_text(json.dumps(report({"samples_ns": [50] * 5}, isa="avx512")))
    assert main(["bench", "--compare", str(a), str(b)]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and "isa avx2 and avx512" in err
    assert main(["bench", "--compare", str(a), str(b), "--anyway"]) == 0
    out, err = capfd.readouterr()
    assert err == "" and "different: isa avx2 and avx512 (machine)\n" in out
    (row,) = [line for line in out.splitlines() if line.startswith("| m ")]
    assert " 2.040 " in row and " 2.000 to 2.080 " in row and "B is faster" in row
    assert main(["bench", "--compare", str(a), str(b), "--anyway", "-o", "jsonl"]) == 0
    (line,) = capfd.readouterr().out.splitlines()
    assert json.loads(line)["kind"] == "comparison"
    for format in ("csv", "sql"):
        assert main(["bench", "--compare", str(a), str(a), "-o", format]) == 0
        assert "pp512" in capfd.readouterr().out
    assert main(["bench", "--compare", str(a), str(tmp_path / "none")]) == 2
