"""`llamapy doctor`: facts with their reasons, and an exit code for what is broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llamapy.base.memory import available_bytes, cgroup_limit, own_bytes, peak_bytes
from llamapy.cli.main import main


def facts(capfd: pytest.CaptureFixture[str]) -> dict[str, object]:
    got: dict[str, object] = json.loads(capfd.readouterr().out)
    return got


def test_facts(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    got = facts(capfd)
    library = got["library"]
    assert isinstance(library, dict) and library["loaded"] and library["kernels"] > 0
    states = {i["name"]: i["state"] for i in library["instruction_sets"]}
    assert list(states.values()).count("chosen") == 1 and got["problems"] == []
    threads = got["threads"]
    assert isinstance(threads, dict) and threads["chosen"] >= 1 and threads["reason"]


def test_what_was_lowered_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLAMAPY_ISA", "scalar")
    assert main(["doctor"]) == 0
    out = capfd.readouterr().out
    assert "scalar      chosen: the best allowed" in out
    assert "LLAMAPY_ISA=scalar" in out and "\x1b" not in out


def test_a_missing_library_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLAMAPY_LIB", "/no/lib.so")
    assert main(["doctor"]) == 1
    assert "PROBLEM      /no/lib.so: no native library there" in capfd.readouterr().out


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_the_least_memory_limit_counts(tmp_path: Path) -> None:
    assert cgroup_limit(tmp_path) is None
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/memory.max", "max\n")
    assert cgroup_limit(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/a/memory.max", "1000\n")
    assert cgroup_limit(tmp_path) == 1000
    write(tmp_path, "sys/fs/cgroup/memory.max", "900\n")
    assert cgroup_limit(tmp_path) == 900


def test_version_one_groups(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "5:cpu:/x\n4:memory:/job\n")
    folder = "sys/fs/cgroup/memory"
    write(tmp_path, f"{folder}/memory.limit_in_bytes", "9223372036854771712\n")
    assert cgroup_limit(tmp_path) is None
    write(tmp_path, f"{folder}/job/memory.limit_in_bytes", "5000\n")
    assert cgroup_limit(tmp_path) == 5000


def test_available_memory_is_the_least_of_machine_and_groups(tmp_path: Path) -> None:
    assert available_bytes(tmp_path) is None
    write(tmp_path, "proc/meminfo", "MemTotal: 16 kB\nMemAvailable: 8 kB\n")
    assert available_bytes(tmp_path) == 8192
    write(tmp_path, "proc/self/cgroup", "0::/a\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.max", "6000\n")
    write(tmp_path, "sys/fs/cgroup/a/memory.current", "5000\n")
    assert available_bytes(tmp_path) == 1000
    write(tmp_path, "sys/fs/cgroup/a/memory.stat", "anon 3\ninactive_file 400\nactive_file 50\n")
    assert available_bytes(tmp_path) == 1450


def test_groups_inside_of_a_group(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "4:memory:/job\n")
    folder = "sys/fs/cgroup/memory/job"
    write(tmp_path, f"{folder}/memory.limit_in_bytes", "5000\n")
    write(tmp_path, f"{folder}/memory.usage_in_bytes", "4000\n")
    stat = "inactive_file 1\nactive_file 2\ntotal_inactive_file 300\ntotal_active_file 40\n"
    write(tmp_path, f"{folder}/memory.stat", stat)
    assert available_bytes(tmp_path) == 1340


def test_what_this_process_has(tmp_path: Path) -> None:
    assert own_bytes(tmp_path) == 0 and peak_bytes(tmp_path) is None
    write(tmp_path, "proc/self/status", "Name:\tx y\nVmHWM:\t  12 kB\nRssAnon:\t   8 kB\n")
    assert own_bytes(tmp_path) == 8192 and peak_bytes(tmp_path) == 12288
