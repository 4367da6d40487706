"""The default number of threads: the rule, and the reading of affinity, cores and cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from llamapy.base.errors import UsageError
from llamapy.base.threads import Readings, choose, default_threads, read, read_cores, read_quota


def cpus(*cores: str) -> dict[int, str]:
    return dict(enumerate(cores))


@pytest.mark.parametrize(
    ("readings", "n", "why"),
    [
        (Readings(cpus("0", "1", "2", "3"), None), 4, "CPUs allowed"),
        (Readings(cpus("0,2", "1,3", "0,2", "1,3"), None), 2, "physical cores among the 4 CPUs"),
        (Readings(cpus("0", "1", "2", "3"), 2.5), 2, "by a cgroup quota of 2.5 CPUs"),
        (Readings(cpus("0", "1"), 0.5), 1, "by a cgroup quota of 0.5 CPUs"),
        (Readings(cpus("0", "1"), 8.0), 2, "CPUs allowed"),
        (Readings({5: "5,9"}, None), 1, "CPUs allowed"),
    ],
)
def test_the_least_of_three(readings: Readings, n: int, why: str) -> None:
    got = choose(readings)
    assert got.n == n
    assert got.reason.startswith(why)


def test_asked_wins() -> None:
    assert choose(Readings(cpus("0"), 1.0), 7).n == 7


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_cores_from_topology(tmp_path: Path) -> None:
    top = "sys/devices/system/cpu"
    write(tmp_path, f"{top}/cpu0/topology/core_cpus_list", "0,4\n")
    write(tmp_path, f"{top}/cpu4/topology/core_cpus_list", "0,4\n")
    write(tmp_path, f"{top}/cpu1/topology/thread_siblings_list", "1,5\n")
    assert read_cores([0, 1, 4, 6], tmp_path) == {0: "0,4", 1: "1,5", 4: "0,4", 6: "6"}


def test_quota_v2_of_a_parent(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/cgroup", "0::/a/b\n")
    write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n")
    assert read_quota(tmp_path) is None
    write(tmp_path, "sys/fs/cgroup/a/cpu.max", "150000 100000\n")
    assert read_quota(tmp_path) == 1.5
    write(tmp_path, "sys/fs/cgroup/a/b/cpu.max", "100000 100000\n")
    assert read_quota(tmp_path) == 1.0


def test_quota_v2_inside_a_container(tmp_path: Path) -> None:
    """The group's path is the host's; the folder mounted is the group."""
    write(tmp_path, "proc/self/cgroup", "0::/docker/1234\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "300000 100000\n")
    assert read_quota(tmp_path) == 3.0
    write(tmp_path, "proc/self/cgroup", "0::/../other\n")
    assert read_quota(tmp_path) == 3.0


@pytest.mark.parametrize("controllers", ["cpu", "cpu,cpuacct"])
def test_quota_v1(tmp_path: Path, controllers: str) -> None:
    write(tmp_path, "proc/self/cgroup", f"5:memory:/x\n4:{controllers}:/job\n")
    folder = f"sys/fs/cgroup/{controllers}/job"
    write(tmp_path, f"{folder}/cpu.cfs_period_us", "50000\n")
    write(tmp_path, f"{folder}/cpu.cfs_quota_us", "-1\n")
    assert read_quota(tmp_path) is None
    write(tmp_path, f"{folder}/cpu.cfs_quota_us", "100000\n")
    assert read_quota(tmp_path) == 2.0


def test_no_cgroups_no_quota(tmp_path: Path) -> None:
    assert read_quota(tmp_path) is None
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "nonsense\n")
    assert read_quota(tmp_path) is None


def test_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMAPY_THREADS", raising=False)
    assert 1 <= default_threads().n <= len(read().cores)
    monkeypatch.setenv("LLAMAPY_THREADS", "3")
    assert default_threads().n == 3
    monkeypatch.setenv("LLAMAPY_THREADS", "0")
    with pytest.raises(UsageError, match="LLAMAPY_THREADS=0"):
        default_threads()
