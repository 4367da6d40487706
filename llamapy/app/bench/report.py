"""A report as text: a table to read, or rows for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from llamapy.app.bench.params import Case

Report = dict[str, Any]
FORMATS = ("md", "csv", "json", "jsonl")
_LISTS = ("samples_ns", "samples_ts")
# Columns that appear in the table when a value is not the default, or there are several.
_SETTINGS = {
    "n_batch": "n_batch",
    "n_ubatch": "n_ubatch",
    "type_k": "type_k",
    "type_v": "type_v",
}


def render(report: Report, format: str) -> str:
    """The text, ending in a newline."""
    return {"md": _md, "csv": _csv, "json": _json, "jsonl": _jsonl}[format](report)


def _json(report: Report) -> str:
    return json.dumps(report, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _jsonl(report: Report) -> str:
    """One line per test, with the conditions in each; then those of phases and ops."""
    head = {"schema_version": report["schema_version"], "conditions": report["conditions"]}
    lines = [{"kind": "roofline", **row} for row in report.get("roofline", [])]
    for name, kind in (("tests", "test"), ("phases", "phases"), ("ops", "ops")):
        lines += [{"kind": kind, **row} for row in report.get(name, [])]
    return "".join(
        json.dumps({**head, **line}, ensure_ascii=False, allow_nan=False) + "\n" for line in lines
    )


def _csv(report: Report) -> str:
    """The tests, one line each; lists stay out."""
    c = report["conditions"]
    head = {"llamapy": c["llamapy"], "cpu_info": c["cpu"], "isa": c["isa"]}
    rows = [{**head, **test} for test in report["tests"]]
    out = io.StringIO()
    columns = [name for name in rows[0] if name not in _LISTS]
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _md(report: Report) -> str:
    parts = [_table(*_tests(report["tests"]))]
    parts += [_table(*_phases(report["phases"]))] if "phases" in report else []
    parts += [_ops(t) for t in report.get("ops", [])]
    parts += [_foot(report)]
    return "\n".join(parts)


def _tests(tests: Sequence[Report]) -> tuple[list[str], list[list[str]]]:
    shown = [name for name in _SETTINGS if _worth_showing(name, tests)]
    with_share = "share_of_peak" in tests[0]
    columns = ["model:", "size", "params", "backend:", "threads", *(_SETTINGS[n] for n in shown)]
    columns += ["test", "t/s", "median", "MAD", "best"] + ["of peak"] * with_share
    rows = []
    for t in tests:
        row = [t["model_type"], _size(t["model_size"]), _params(t["model_n_params"])]
        row += [t["backends"], str(t["n_threads"]), *(str(t[name]) for name in shown), t["test"]]
        row += [f"{t['avg_ts']:.2f} ± {t['stddev_ts']:.2f}"]
        row += [f"{t[name]:.2f}" for name in ("median_ts", "mad_ts", "max_ts")]
        rows.append(row + [_percent(t["share_of_peak"])] if with_share else row)
    return columns, rows


def _worth_showing(name: str, tests: Sequence[Report]) -> bool:
    default = getattr(Case(n_prompt=0, n_gen=0), name)
    return any(t[name] != default for t in tests)


def _phases(rows: Sequence[Report]) -> tuple[list[str], list[list[str]]]:
    columns = ["model:", "load", "tokenizer", "prefill/token", "decode/token", "sample/token"]
    out = []
    for r in rows:
        cells = [r["model_type"], _time(r["load_s"]), _time(r["tokenizer_s"])]
        for name in ("prefill", "decode", "sample", "detokenise"):
            us = r[f"{name}_us_per_token"]
            cells.append(_time(None if us is None else us / 1e6))
        out.append(cells)
    return [*columns, "detokenise/token"], out


def _ops(t: Report) -> str:
    """One graph: its kernels, and what the products among them reach."""
    rows = []
    for k in t["kernels"]:
        ns = max(k["ns"], 1.0)
        product = k["n_ops"] > 0
        rows.append(
            [
                k["kernel"],
                str(k["count"]),
                f"{k['ns'] / 1e3:.1f}",
                _percent(k["ns"] / max(t["sum_ns"], 1.0)),
                f"{k['n_bytes'] / ns:.1f}" if product else "",
                f"{k['n_ops'] / ns:.0f}" if product else "",
            ]
        )
    head = (
        f"{t['model_type']}, {t['graph']}: {t['whole_ns'] / 1e3:.1f} us whole, "
        f"{t['sum_ns'] / 1e3:.1f} us record by record\n\n"
    )
    columns = ["kernel:", "records", "us", "share", "GB/s", "GOPS"]
    return head + _table(columns, rows)


def _foot(report: Report) -> str:
    c = report["conditions"]
    lines = []
    for top in report.get("roofline", []):
        mine = [t for t in report["tests"] if t["n_threads"] == top["n_threads"]]
        seen = [t[f"read_bytes_{when}"] / 1e9 for t in mine for when in ("before", "after")]
        lines.append(
            f"roofline: {top['n_threads']} threads read {min(seen):.1f} to {max(seen):.1f} GB/s "
            f"around the tests, int8 {top['int8_ops'] / 1e9:.0f} GOPS, "
            f"f32 {top['fma_ops'] / 1e9:.0f} GFLOPS"
        )
    shaken = [t["test"] for t in report["tests"] if not t["steady"]]
    if shaken:
        lines.append(f"not steady (MAD above 5 %): {', '.join(dict.fromkeys(shaken))}")
    load = c["load_average"]
    facts = [c["cpu"] or "unknown CPU", c["isa"], f"{c['cpus_allowed']} CPUs allowed"]
    facts += [f"quota {c['cgroup_quota_cpus']:g} CPUs"] if c["cgroup_quota_cpus"] else []
    facts += [f"load {load[0]:.2f}"] if load else []
    facts += [f"throttled for {c['throttled_us'] / 1e3:.0f} ms"] if c["throttled_us"] else []
    lines += [f"machine: {', '.join(facts)}", f"build: llamapy {c['llamapy']}"]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown, cells padded; a column whose name ends in a colon is flush left."""
    left = [name.endswith(":") for name in columns]
    names = [name.rstrip(":") for name in columns]
    width = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    cells = [
        [
            v.ljust(w) if at_left else v.rjust(w)
            for v, w, at_left in zip(r, width, left, strict=True)
        ]
        for r in [names, *rows]
    ]
    rule = [
        "-" * (w + 1) + ("-" if at_left else ":") for w, at_left in zip(width, left, strict=True)
    ]
    lines = ["| " + " | ".join(r) + " |" for r in cells]
    lines.insert(1, "|" + "|".join(rule) + "|")
    return "\n".join(lines) + "\n"


def _size(n: int) -> str:
    return f"{n / 2**30:.2f} GiB" if n >= 2**30 else f"{n / 2**20:.2f} MiB"


def _params(n: int) -> str:
    return f"{n / 1e9:.2f} B" if n >= 1e9 else f"{n / 1e6:.2f} M"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{share * 100:.1f} %"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e6:.2f} us"
