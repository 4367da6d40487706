"""A report as text: tables to read, or rows for programs (see rows.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llamapy.app.bench.params import Case
from llamapy.app.bench.rows import KINDS, as_csv, as_sql
from llamapy.app.bench.stats import STEADY

Report = dict[str, Any]
FORMATS = ("md", "csv", "json", "jsonl", "sql")
ROWS_ALONE = ("csv", "sql")  # formats that hold no more than one row per test
# Columns that appear in the table when a value is not the default, or there are several.
_SETTINGS = ("n_batch", "n_ubatch", "type_k", "type_v", "load_mode", "repack")


def render(report: Report, format: str) -> str:
    """The text, ending in a newline."""
    forms = {"md": _md, "csv": as_csv, "json": _json, "jsonl": _jsonl, "sql": as_sql}
    return forms[format](report)


def _json(report: Report) -> str:
    return json.dumps(report, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _jsonl(report: Report) -> str:
    """One line per test, with the conditions in each; then those of phases and ops."""
    more = ("interrupted", "conditions", "method", "level", "a", "b", "different", "only")
    head = {name: report[name] for name in ("schema_version", "command", *more) if name in report}
    lines = [{"kind": "roofline", **row} for row in report.get("roofline", [])]
    for name, kind in (*KINDS.items(), ("phases", "phases"), ("ops", "ops")):
        lines += [{"kind": kind, **row} for row in report.get(name, [])]
    return "".join(
        json.dumps({**head, **line}, ensure_ascii=False, allow_nan=False) + "\n" for line in lines
    )


def _md(report: Report) -> str:
    if "comparisons" in report:
        return _comparison(report)
    parts = [_table(*_tests(report["tests"]))] if report["tests"] else []
    parts += [_table(*_batched(report["batched"]))] if "batched" in report else []
    parts += [_table(*_whole(report["end_to_end"]))] if "end_to_end" in report else []
    parts += [_table(*_phases(report["phases"]))] if "phases" in report else []
    parts += [_ops(t) for t in report.get("ops", [])]
    parts += [_foot(report)]
    return "\n".join(parts)


def _settings(tests: Sequence[Report]) -> list[str]:
    """Which settings are shown."""
    default = Case(n_prompt=0, n_gen=0)
    shown = []
    for name in _SETTINGS:
        seen = {_setting(t, name) for t in tests}
        usual = {"load_mode": "mmap", "repack": "auto"}.get(name) or getattr(default, name)
        if any(value not in (None, usual) for value in seen) or len(seen) > 1:
            shown.append(name)
    return shown


def _setting(test: Report, name: str) -> Any:
    value = test.get(name)
    return value.get("asked") if isinstance(value, dict) else value


def _batched(tests: Sequence[Report]) -> tuple[list[str], list[list[str]]]:
    """llama-batched-bench's columns, medians of the repetitions."""
    shown, several = _settings(tests), len({t["model_filename"] for t in tests}) > 1
    threads = len({t["n_threads"] for t in tests}) > 1
    columns = ["model:"] * several + ["threads"] * threads + shown
    columns += ["PP", "TG", "B", "N_KV", "T_PP s", "S_PP t/s", "T_TG s", "S_TG t/s", "T s", "S t/s"]
    rows = []
    for t in tests:
        row = [t["model_type"]] * several + [str(t["n_threads"])] * threads
        row += [str(_setting(t, name)) for name in shown]
        row += [str(t[name]) for name in ("n_prompt", "n_gen", "n_parallel", "n_kv")]
        for part in ("prompt_", "gen_", ""):
            rate = t[f"{part}median_ts"]
            row += [f"{t[f'{part}median_ns'] / 1e9:.3f}", "-" if rate is None else f"{rate:.2f}"]
        rows.append(row)
    return columns, rows


def _whole(tests: Sequence[Report]) -> tuple[list[str], list[list[str]]]:
    """Where the time of a whole process goes, medians."""
    shown = _settings(tests)
    columns = ["model:", "threads", *shown, "PP", "TG", "start", "load", "prompt"]
    columns += ["generation", "end", "first token", "whole", "MAD", "best"]
    rows = []
    for t in tests:
        row = [t["model_type"], str(t["n_threads"]), *(str(_setting(t, name)) for name in shown)]
        row += [str(t["n_prompt"]), str(t["n_gen"])]
        names = ["start_median", "load_median", "prompt_median", "gen_median", "end_median"]
        names += ["first_median", "median", "mad", "min"]
        rows.append(row + [_time(t[f"{name}_ns"] / 1e9) for name in names])
    return columns, rows


def _comparison(report: Report) -> str:
    """A table of ratios, then what differs and what was left out."""
    rows = []
    for c in report["comparisons"]:
        word = "no difference seen"
        if c["differs"]:
            word = "B is faster" if c["ratio"] > 1 else "B is slower"
        shaken = [side.upper() for side in "ab" if c[f"{side}_steady"] is False]
        name = f"{c['test']}, {c['figure']}" if c["figure"] else c["test"]
        rows.append(
            [c["model_type"] or "?", name]
            + [_time(c[f"{side}_median_ns"] / 1e9) for side in "ab"]
            + [f"{c['ratio']:.3f}", f"{c['low']:.3f} to {c['high']:.3f}", f"{c['level']:.1%}"]
            + [word + (f" ({' and '.join(shaken)} not steady)" if shaken else "")]
        )
    columns = ["model:", "test:", "A", "B", "B's speed / A's", "interval", "covers", ":"]
    lines = [f"A: {report['a']['path']}, {_machine(report['a'])}"]
    lines += [f"B: {report['b']['path']}, {_machine(report['b'])}"]
    lines += [
        f"different: {d['name']} {d['a']} and {d['b']} ({d['of']})" for d in report["different"]
    ]
    for side, names in report["only"].items():
        lines += [f"only in {side.upper()}: {', '.join(names)}"] if names else []
    lines += [f"method: {report['method']}, of the samples in each file"]
    return _table(columns, rows) + "\n" + "\n".join(lines) + "\n"


def _tests(tests: Sequence[Report]) -> tuple[list[str], list[list[str]]]:
    shown = _settings(tests)
    with_share = "share_of_peak" in tests[0]
    columns = ["model:", "size", "params", "backend:", "threads", *shown]
    columns += ["test", "t/s", "median", "MAD", "best"] + ["of peak"] * with_share
    rows = []
    for t in tests:
        row = [t["model_type"], _size(t["model_size"]), _params(t["model_n_params"])]
        row += [
            t["backends"],
            str(t["n_threads"]),
            *(str(_setting(t, n)) for n in shown),
            t["test"],
        ]
        row += [f"{t['avg_ts']:.2f} ± {t['stddev_ts']:.2f}"]
        row += [f"{t[name]:.2f}" for name in ("median_ts", "mad_ts", "max_ts")]
        rows.append(row + [_percent(t["share_of_peak"])] if with_share else row)
    return columns, rows


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
        seen = [read / 1e9 for t in mine for read in t["samples_read_bytes"]]
        lines.append(
            f"roofline: {top['n_threads']} threads read {min(seen):.1f} to {max(seen):.1f} GB/s "
            f"around the tests, int8 {top['int8_ops'] / 1e9:.0f} GOPS, "
            f"f32 {top['fma_ops'] / 1e9:.0f} GFLOPS"
        )
    lines += ["interrupted: not all repetitions were made"] if report.get("interrupted") else []
    lines += _convergence([t for name in KINDS for t in report.get(name, [])])
    return "\n".join([*lines, f"machine: {_machine(c)}", f"build: llamapy {c['llamapy']}"]) + "\n"


def _convergence(tests: Sequence[Report]) -> list[str]:
    """Whether the figures can be trusted, said either way."""
    share = f"{STEADY:.0%}"
    claims = {
        f"not steady (MAD above {share} of the median)": [t for t in tests if t["steady"] is False],
        "not known to be steady (fewer than 3 repetitions)": [
            t for t in tests if t["steady"] is None
        ],
        f"did not converge in the warm-up (its last two runs differ by more than {share})": [
            t for t in tests if t["warmed"] is False
        ],
        "not warmed up": [t for t in tests if t["warmed"] is None],
    }
    lines = [
        f"{claim}: {', '.join(dict.fromkeys(t['test'] for t in found))}"
        for claim, found in claims.items()
        if found
    ]
    return lines or [f"converged: warm-ups within {share}, MAD at most {share} of the median"]


def _machine(c: Report) -> str:
    facts = [c["cpu"] or "unknown CPU", c["isa"], f"{c['cpus_allowed']} CPUs allowed"]
    facts += [f"quota {c['cgroup_quota_cpus']:g} CPUs"] if c["cgroup_quota_cpus"] else []
    facts += [f"governor {c['governor']}"] if c["governor"] else []
    load, after = c["load_average"], c["load_average_after"]
    facts += [f"load {load[0]:.2f} to {after[0]:.2f}"] if load and after else []
    facts += [f"throttled for {c['throttled_us'] / 1e3:.0f} ms"] if c["throttled_us"] else []
    return ", ".join(facts)


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
