"""Measurements that are killed at random moments and gone on with: the same bits as in one go.
LLAMAPY_KILLS says how many moments (2 of each kind by default)."""

from __future__ import annotations

import json
import os
import random
import signal
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
KILLS = int(os.environ.get("LLAMAPY_KILLS", "2"))
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


class Runner:
    """A folder with a model, and command lines in it, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        speaking_model.write(folder / "m")
        words = [
            "the",
            "end",
            "of",
            "the",
            "affair",
            "is",
            "in",
            "the",
            "hat",
            "and",
            "in",
            "the",
            "rain",
        ]
        rng = random.Random(3)
        text = " ".join(rng.choice(words) for _ in range(3000))
        (folder / "text").write_text(text)
        pieces = [text[i : i + 40].replace("\n", " ") for i in range(0, 16000, 40)]
        tasks = [[p, str(i % 4), *pieces[i : i + 4]] for i, p in enumerate(pieces[:80])]
        (folder / "tasks").write_text("".join(f"{x}\n" for task in tasks for x in task))
        asked = [{"context": p, "continuations": pieces[i : i + 3]} for i, p in enumerate(pieces)]
        (folder / "asked").write_text("".join(json.dumps(x) + "\n" for x in asked[:100]))
        self._process = subprocess.Popen(
            [sys.executable, forked.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=folder,
        )
        assert self._process.stdout is not None and self._process.stdin is not None
        self._said, self._asks = self._process.stdout, self._process.stdin
        assert self._said.readline() == b"ready\n"

    def __call__(
        self, *args: str, after: float | None = None, most_bytes: int | None = None
    ) -> tuple[int, float]:
        """Exit code and seconds; killed `after` so many. Files grow to `most_bytes`."""
        fds = {"0": "null", "1": "out", "2": "err"}
        request: dict[str, Any] = {"args": [*args, "-m", "m", "-t", "1"], "fds": fds}
        for name in ("out", "err"):
            (self.folder / name).write_bytes(b"")
        if most_bytes is not None:
            request["most_bytes"] = most_bytes
        if after is not None:
            request |= {"after": after, "signal": "SIGKILL"}
        self._asks.write(json.dumps(request).encode() + b"\n")
        self._asks.flush()
        answer = json.loads(self._said.readline())
        return answer["rc"], answer["seconds"]

    def read(self, name: str) -> bytes:
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def answer(self) -> dict[str, Any]:
        """What was printed, without what tells how and not what."""
        found = json.loads(self.read("out"))
        return {k: v for k, v in found.items() if k not in ("seconds", "n_resumed", "isa")}

    def remove(self, *names: str) -> None:
        for name in names:
            (self.folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("kills"))
    yield made
    made.close()


TEXT = ["perplexity", "-f", "text", "-c", "128", "-np", "2", "--json"]
MEASUREMENTS = {
    "llamacpp": TEXT,
    "hf": [*TEXT, "--method", "hf", "--stride", "96"],
    "kl": ["perplexity", "--kl", "base", "-ctk", "f32", "-np", "3", "--json"],
    "tasks": ["perplexity", "-f", "tasks", "--hellaswag", "-np", "8", "--json"],
}


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_perplexity(run: Runner, kind: str) -> None:
    if kind == "kl":
        assert run(*TEXT, "--kl-base", "base")[0] == 0
    words = MEASUREMENTS[kind]
    run.remove("whole", "part")
    code, took = run(*words, "--chunks-out", "whole")
    assert code == 0, run.read("err")
    whole, answer = run.read("whole"), run.answer()
    assert whole.count(b"\n") > 20
    n_killed = n_inside = 0
    for _ in range(10 * KILLS):
        resume = ["--resume"] if run.read("part") else []
        code, _ = run(*words, "--chunks-out", "part", *resume, after=random.uniform(0, took))
        part = run.read("part")
        assert whole.startswith(part[: part.rfind(b"\n") + 1])
        if code == -signal.SIGKILL:
            n_killed += 1
            n_inside += 0 < part.count(b"\n") < whole.count(b"\n")
        else:
            assert code == 0 and run.answer() == answer, run.read("err")
            run.remove("part")
        if n_killed == KILLS:
            break
    assert n_killed == KILLS and (n_inside or KILLS < 20)
    if run.read("part"):
        assert run(*words, "--chunks-out", "part", "--resume")[0] == 0
        assert run.read("part") == whole and run.answer() == answer


def test_score(run: Runner) -> None:
    run.remove("whole", "part", "part.job.json")
    code, took = run("score", "asked", "-np", "6", "-o", "whole")
    assert code == 0, run.read("err")
    whole = run.read("whole")
    n_killed = 0
    while n_killed < KILLS:
        code, _ = run("score", "asked", "-np", "6", "-o", "part", after=random.uniform(0, took))
        n_killed += code == -signal.SIGKILL
        part = run.read("part")
        assert whole.startswith(part[: part.rfind(b"\n") + 1])
        if code == 0:
            assert part == whole
            run.remove("part", "part.job.json")
    assert run("score", "asked", "-o", "part")[0] == 0 and run.read("part") == whole


def test_a_base(run: Runner) -> None:
    """It is whole or not there, and is gone on with, the lines of its windows as well."""
    words = [*TEXT, "--chunks-out"]
    run.remove("base", "whole", "base2", "base2.part", "part")
    code, took = run(*words, "whole", "--kl-base", "base")
    assert code == 0, run.read("err")
    base, answer, n_killed, n_inside = run.read("base"), run.answer(), 0, 0
    while n_killed < KILLS or (not n_inside and KILLS < 20):
        more = ["--resume"] if run.read("part") or run.read("base2.part") else []
        code, _ = run(*words, "part", "--kl-base", "base2", *more, after=random.uniform(0, took))
        n_killed += code == -signal.SIGKILL
        n_inside += len(run.read("base2.part")) > 0
        assert run.read("base2") in (b"", base) and base.startswith(run.read("base2.part"))
        if code != -signal.SIGKILL:
            assert code == 0 and run.answer() == answer and run.read("base2") == base
            assert run.read("part") == run.read("whole")
            run.remove("base2", "part")
    assert run(*words, "part", "--kl-base", "base2", "--resume")[0] == 0
    assert run.read("base2") == base and run.answer() == answer
    assert run.read("part") == run.read("whole") and not run.read("base2.part")


@pytest.mark.parametrize("kind", ["llamacpp", "tasks", "score", "base"])
def test_a_file_that_may_not_grow(run: Runner, kind: str) -> None:
    """The line that did not fit is torn, those before it are whole; with more room it goes on."""
    words, flag = {
        "score": (["score", "asked"], "-o"),
        "base": (TEXT, "--kl-base"),
    }.get(kind, (MEASUREMENTS.get(kind, []), "--chunks-out"))
    run.remove("whole", "part", "part.job.json", "part.part")
    assert run(*words, flag, "whole")[0] == 0
    whole = run.read("whole")
    for most in (len(whole) // 2, len(whole) // 2 + 7):
        run.remove("part", "part.job.json", "part.part")
        code, _ = run(*words, flag, "part", most_bytes=most)
        assert code == 1 and b"cannot write to part: File too large" in run.read("err")
        assert run.read("err").count(b"\n") == 1 and run.read("out") == b""
        part = run.read("part.part" if kind == "base" else "part")
        assert kind != "base" or not run.read("part")
        assert len(part) == most and whole.startswith(part)
        resume = [] if kind == "score" else ["--resume"]
        assert run(*words, flag, "part", *resume)[0] == 0 and run.read("part") == whole
