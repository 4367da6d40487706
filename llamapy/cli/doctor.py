"""`llamapy doctor`: what this machine offers, what was chosen, and why."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterator
from typing import Any

from llamapy.cli import options
from llamapy.cli.streams import answer_to


def command(json: options.Json = False, verbose: options.Verbose = 0) -> int:
    """Print facts about this installation. Exit code 1 when it cannot run a model."""
    from llamapy.app.doctor import report

    options.begin(verbose=verbose, json=json)
    facts = report()
    with answer_to(None) as out:
        if json:
            out.write(jsonlib.dumps({"schema_version": 1, "command": "doctor", **facts}) + "\n")
        else:
            out.write("\n".join(_lines(facts)) + "\n")
    return 1 if facts["problems"] else 0


def _lines(f: dict[str, Any]) -> Iterator[str]:
    yield _row("llamapy", f["llamapy"])
    yield _row("python", f"{f['python']} ({f['executable']})")
    yield _row("system", f"{f['system']}, {f['libc']}")
    yield _row("packages", ", ".join(f"{k} {v or 'missing'}" for k, v in f["packages"].items()))
    yield from _library(f["library"])
    t = f["threads"]
    quota = t["cgroup_quota_cpus"]
    limit = "no cgroup quota" if quota is None else f"cgroup quota {quota:g} CPUs"
    yield _row("threads", f"{t['chosen']} {t['reason']}")
    yield _row("", f"{t['cpus_allowed']} CPUs, {t['physical_cores']} cores, {limit}")
    m = f["memory"]
    yield _row(
        "memory",
        f"{_gib(m['total_bytes'])}, {_gib(m['available_bytes'])} available,"
        f" cgroup limit {_gib(m['cgroup_limit_bytes'])}",
    )
    yield _row("cache", f["cache"]["folder"])
    for name, path in f["cache"]["models"].items():
        yield _row("model", f"{name}: {path or f'not here (llamapy pull {name})'}")
    for name, value in f["environment"].items():
        if value is not None:
            yield _row("environment", f"{name}={value}")
    for problem in f["problems"]:
        yield _row("PROBLEM", problem)


def _library(x: dict[str, Any]) -> Iterator[str]:
    if not x["loaded"]:
        yield _row("library", f"{x['path']}: not loaded")
        return
    yield _row("library", f"{x['path']}, ABI {x['abi']}, {x['kernels']} kernels")
    yield _row("cpu", ", ".join(x["cpu"]) or "nothing beyond the base")
    for i in x["instruction_sets"]:
        yield _row("", f"{i['name']:<11} {i['state']}: {i['reason']} ({i['kernels']} kernels)")


def _row(name: str, text: str) -> str:
    return f"{name:<12} {text}"


def _gib(n: int | None) -> str:
    return "none" if n is None else f"{n / 2**30:.1f} GiB"
