"""`llamapy batch` killed at fifty random moments, and on a disk that fills up: what it goes on with
ends as if nothing had happened. On a small model, in processes forked from one (tests/forked.py).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
import speaking_model

import llamapy

ROOT = Path(llamapy.__file__).parent.parent
N_KILLS = 50
HEAD = "Of all the texts in here this is the one that they share. "
LINES = [
    {"id": f"q{i}", "prompt": (HEAD if i % 3 else "") + "the " * (i % 5) + str(i), "n": 3 * i % 40}
    for i in range(40)
] + [{"id": "drawn", "prompt": "an", "n": 30, "temperature": 1.0}, {"id": "bad", "n": 1}]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


class Batch:
    """The job, and the process that forks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = str(speaking_model.write(folder / "m.gguf"))
        self.lines = folder / "in.jsonl"
        self.lines.write_text("".join(json.dumps(line) + "\n" for line in LINES))
        self._process = subprocess.Popen(
            [sys.executable, forked.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self._answer() == b"ready\n"

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def run(self, out: Path, *more: object, **when: Any) -> tuple[int, float]:
        """Exit code (-9: killed) and seconds."""
        words = ["batch", self.lines, "-m", self.model, "-t", 1, "-s", 5, "-o", out, *more]
        streams = {0: "null", 1: "null", 2: str(self.folder / "err")}
        (self.folder / "err").unlink(missing_ok=True)
        request = {"args": [str(w) for w in words], "fds": streams, **when}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer())
        return answer["rc"], answer["seconds"]

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    made = Batch(tmp_path_factory.mktemp("kills"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def whole(batch: Batch) -> tuple[bytes, float]:
    """The file of an uninterrupted run, in order, and how long that takes."""
    out = batch.folder / "whole"
    code, seconds = batch.run(out, "--ordered", "-np", 4)
    assert code == 7 and out.read_bytes().count(b"\n") == len(LINES)
    return out.read_bytes(), seconds


def in_order(raw: bytes) -> bytes:
    """Its lines in the order of the input's."""
    order = [line["id"] for line in LINES]
    lines = raw.splitlines(keepends=True)
    return b"".join(sorted(lines, key=lambda line: order.index(json.loads(line)["id"])))


def test_fifty_kills(batch: Batch, whole: tuple[bytes, float]) -> None:
    want, took = whole
    rng = random.Random()
    killed = 0
    kept = {True: b"", False: b""}
    while killed < N_KILLS:
        ordered = rng.random() < 0.5
        out = batch.folder / f"out{ordered:d}"
        more = ["--ordered"] if ordered else []
        more += ["-np", rng.choice([1, 3, 8]), "-ub", rng.choice([8, 512])]
        after = rng.uniform(0.0, 1.3 * took)
        code, _ = batch.run(out, *more, after=after, signal="SIGKILL")
        raw = out.read_bytes() if out.exists() else b""
        if code == 7:
            assert (raw if ordered else in_order(raw)) == want
            kept[ordered] = b""
            for path in (out, out.with_name(f"{out.name}.job.json")):
                path.unlink()
            continue
        assert code == -9, (batch.folder / "err").read_text()
        killed += 1
        lines = raw[: raw.rfind(b"\n") + 1]
        assert {*good(kept[ordered])} <= {*good(lines)} <= {*want.splitlines()}
        kept[ordered] = lines
    for ordered in (True, False):
        out = batch.folder / f"out{ordered:d}"
        assert batch.run(out, *(["--ordered"] if ordered else []))[0] == 7
        raw = out.read_bytes()
        assert (raw if ordered else in_order(raw)) == want
    assert not [p for p in batch.folder.iterdir() if "tmp" in p.name]


def good(raw: bytes) -> list[bytes]:
    """Lines that stay: those that are no errors."""
    return [line for line in raw.splitlines() if b'"status": "ok"' in line]


def test_a_disk_that_fills_up(batch: Batch, whole: tuple[bytes, float], tmp_path: Path) -> None:
    words = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        (tmp_path / "rest").write_bytes(bytes(4096))
        assert len(whole[0]) > 8192
        code, _ = batch.run(tmp_path / "out", "-np", 4)
        told = (batch.folder / "err").read_text()
        assert code == 1 and told.count("\n") == 1 and "No space left on device" in told
        got = (tmp_path / "out").read_bytes()
        assert got[: got.rfind(b"\n")].splitlines() and len(got) <= 8192
        (tmp_path / "rest").unlink()
        subprocess.run(["mount", "-o", "remount,size=1m", str(tmp_path)], check=True)
        assert batch.run(tmp_path / "out", "-np", 4)[0] == 7
        assert in_order((tmp_path / "out").read_bytes()) == whole[0]
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
