"""A report as flat rows for tables elsewhere: CSV, and SQL for any database.

One row per test of whatever kind, with the conditions it ran under; lists of samples stay out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

Row = dict[str, Any]
KINDS = {"tests": "test", "batched": "batched", "end_to_end": "run", "comparisons": "comparison"}
TABLE = "llamapy_bench"


def rows(report: Mapping[str, Any]) -> list[Row]:
    """The tests, with values that a table can hold. All rows have the same columns, None where a
    kind of test has no such value."""
    found = [
        {"kind": kind, **_conditions(report), **_flat(test)}
        for name, kind in KINDS.items()
        for test in report.get(name, ())
    ]
    columns = list(dict.fromkeys(name for row in found for name in row))
    return [{name: row.get(name) for name in columns} for row in found]


def _conditions(report: Mapping[str, Any]) -> Row:
    c = report.get("conditions")
    if c is None:  # of a comparison: there are two
        return {}
    load, after = c["load_average"], c["load_average_after"]
    return {
        "llamapy": c["llamapy"],
        "cpu_info": c["cpu"],
        "isa": c["isa"],
        "cpus_allowed": c["cpus_allowed"],
        "cgroup_quota_cpus": c["cgroup_quota_cpus"],
        "governor": c["governor"],
        "load_before": load[0] if load else None,
        "load_after": after[0] if after else None,
        "throttled_us": c["throttled_us"],
    }


def _flat(test: Mapping[str, Any]) -> Row:
    """Values alone; of what is nested, its own values by `outer_inner`."""
    out: Row = {}
    for name, value in test.items():
        if isinstance(value, Mapping):
            out |= {f"{name}_{k}": v for k, v in _flat(value).items()}
        elif not isinstance(value, list | tuple):
            out[name] = value
    return out


def as_csv(report: Mapping[str, Any]) -> str:
    """A header and a line per row."""
    found = rows(report)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(found[0]) if found else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return out.getvalue()


def as_sql(report: Mapping[str, Any]) -> str:
    """Statements that make the table, unless it is there, and put the rows in, in one transaction.
    Plain enough for SQLite, PostgreSQL and others."""
    found = rows(report)
    if not found:
        return ""
    types = {name: _type([row[name] for row in found]) for name in found[0]}
    columns = ",\n".join(f"  {_name(name)} {type}" for name, type in types.items())
    lines = ["BEGIN;", f"CREATE TABLE IF NOT EXISTS {TABLE} (\n{columns}\n);"]
    head = f"INSERT INTO {TABLE} ({', '.join(map(_name, types))}) VALUES"
    lines += [f"{head} ({', '.join(_literal(v) for v in row.values())});" for row in found]
    return "\n".join([*lines, "COMMIT;"]) + "\n"


def _name(name: str) -> str:
    return '"' + re.sub(r"\W", "_", name) + '"'


def _type(values: Sequence[Any]) -> str:
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, int) for v in known):  # of truth values as well
        return "BIGINT"
    return (
        "DOUBLE PRECISION" if known and all(isinstance(v, int | float) for v in known) else "TEXT"
    )


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"
