"""Every command with streams that are closed, full or left by their reader, with outputs that
cannot be written, and interrupted: the exit code of the table, one line, never a traceback or a
file half written. Processes are forked from one that has imported everything (tests/forked.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import pytest
import random_encoders
import speaking_model

import llamapy
from llamapy.cli.main import COMMANDS

ROOT = Path(llamapy.__file__).parent.parent
pytestmark = pytest.mark.skipif(
    not os.path.exists("/dev/full") or not hasattr(os, "fork"), reason="no /dev/full, or no fork"
)


class World:
    """A folder with what commands read, and the process that forks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = str(speaking_model.write(folder / "m.gguf"))
        self.big = str(speaking_model.write(folder / "big.gguf"))
        os.truncate(self.big, 4 << 30)  # of which nothing lies on the disk
        words = ["[PAD]", "▁the", "▁cat"]
        self.bert = str(
            random_encoders.write(folder / "b.gguf", "bert", words=words, pooling="cls")
        )
        self.text = self.file("text", b"the end of the affair\n" * 40)
        self.long = self.file("long", b"the end of the affair\n" * 40000)
        lines = [{"id": i, "prompt": f"the {i}"} for i in range(3)]
        self.lines = self.file("in.jsonl", "".join(json.dumps(x) + "\n" for x in lines).encode())
        lines = [{"id": i, "prompt": f"the {i}", "n": 1900} for i in range(200)]
        self.many = self.file("many.jsonl", "".join(json.dumps(x) + "\n" for x in lines).encode())
        pairs = [{"context": f"the {i}", "continuations": ["a", "b"]} for i in range(20000)]
        texts = [json.dumps(x) + "\n" for x in pairs]
        self.pairs = self.file("pairs.jsonl", "".join(texts[:3]).encode())
        self.many_pairs = self.file("many_pairs.jsonl", "".join(texts).encode())
        self._process = subprocess.Popen(
            [sys.executable, forked.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=folder,
        )
        assert self._answer() == b"ready\n"
        self._n = 0

    def file(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def _answer(self) -> bytes:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def call(self, args: list[str], fds: dict[int, str] | None = None, **more: Any) -> Done:
        """One command line; streams that are not given go to files, stdin is empty."""
        self._n += 1
        out, err = (self.folder / f"{name}{self._n}" for name in ("out", "err"))
        streams = {0: "null", 1: str(out), 2: str(err), **(fds or {})}
        request = {"args": args, "fds": streams, **more}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._answer())
        read = [p.read_bytes() if p.exists() else b"" for p in (out, err)]
        return Done(answer["rc"], *read)

    def close(self) -> None:
        self._process.communicate()


class Done:
    def __init__(self, rc: int, out: bytes, err: bytes) -> None:
        self.rc, self.out, self.err = rc, out, err.decode()

    def one_line(self, rc: int, says: str) -> None:
        """How it has to end when something is wrong."""
        assert (self.rc, self.err.count("\n")) == (rc, 1), (self.rc, self.err)
        told = self.err
        if told.startswith("{"):
            told = f"llamapy: error: {json.loads(told)['error']['message']}"
        assert told.startswith(f"llamapy: error: {says}"), told


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    yield made
    made.close()


# By command: what it answers on stdout; the flag that names a file for it instead, or a second one;
# what takes long enough to be interrupted, None where nothing does.
Words = list[str]
SMALL = ["-p", "3", "-n", "2", "-r", "1", "-t", "1", "--no-warmup"]


def rows(w: World) -> dict[str, tuple[Words, Words, Words | None]]:
    m = ["-m", w.model]
    run = ["run", *m, "-p", "the", "--temp", "0", "--ignore-eos"]
    perplexity = ["perplexity", *m, "-c", "128"]
    return {
        "run": ([*run, "-n", "3"], ["-o"], [*run, "-n", "60000"]),
        "batch": (["batch", w.lines, *m, "-n", "2"], ["-o"], ["batch", w.many, *m]),
        "logits": (
            ["logits", *m, "--tokens", "1,2", "-o", "/dev/null", "--json"],
            ["-o"],
            ["logits", *m, "--tokens", ",".join(["5"] * 20000), "-o", "/dev/null", "-ub", "1"],
        ),
        "embed": (
            ["embed", "-m", w.bert, "-p", "the cat", "--pooling", "cls"],
            ["-o"],
            ["embed", "-m", w.bert, "--pooling", "cls", "-f", w.long],
        ),
        "perplexity": (
            [*perplexity, "-f", w.text],
            ["-o", "--chunks-out", "--kl-base"],
            [*perplexity, "-f", w.long],
        ),
        "score": (["score", w.pairs, *m], ["-o"], ["score", w.many_pairs, *m]),
        "tokenize": (["tokenize", "the end", *m], [], ["tokenize", *m, "-f", w.long]),
        "inspect": (["inspect", w.model], [], None),
        "plan": (["plan", w.model], ["-o"], None),
        "verify": (["verify", w.model], ["-o"], ["verify", w.big]),
        "graph": (["graph", *m], ["-o"], None),
        "bench": (["bench", *m, *SMALL], [], ["bench", *m, "-p", "1", "-n", "0", "-r", "100000"]),
        "pull": (["pull", "--list"], [], None),
        "doctor": (["doctor"], [], None),
        "completion": (["completion", "bash"], [], None),
    }


NAMES = [row.name for row in COMMANDS]


def test_every_command_is_here(world: World) -> None:
    assert sorted(rows(world)) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_streams(world: World, name: str) -> None:
    words = rows(world)[name][0]
    good = world.call(words)
    assert (good.rc, good.err) == (0, "") and good.out
    for closed in ("closed", "null"):
        assert world.call(words, {0: closed}).rc == 0
        done = world.call(words, {1: closed})
        assert (done.rc, done.err) == (0, "")
    assert world.call(words, {2: "closed"}).rc == 0
    assert world.call(words, {0: "closed", 1: "closed", 2: "closed"}).rc == 0
    gone = world.call(words, {1: "gone"})
    assert (gone.rc, gone.err) == (141, "")
    world.call(words, {1: "full"}).one_line(1, "cannot write to stdout: No space left on device")
    assert world.call(words, {1: "full", 2: "full"}).rc == 1
    assert world.call(words, {1: "full", 2: "closed"}).rc == 1


@pytest.mark.parametrize("name", NAMES)
def test_outputs_that_cannot_be_written(world: World, name: str) -> None:
    words, flags, _ = rows(world)[name]
    for flag in flags:
        plain = [w for i, w in enumerate(words) if flag not in words[max(i - 1, 0) : i + 1]]
        into = world.file("a_file", b"")
        for path, says in ((f"{into}/x", "Not a directory"), ("no_folder/x", "No such file")):
            world.call([*plain, flag, path]).one_line(2, f"cannot write {path}: {says}")
        world.call([*plain, flag, str(world.folder)]).one_line(2, f"cannot write {world.folder}: ")
        done = world.call([*plain, flag, "/dev/full"])
        done.one_line(1, "cannot write to /dev/full: No space left on device")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """16 KiB in all, where one may be mounted."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)], capture_output=True
    )
    if done.returncode:
        pytest.skip("no file system may be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk(world: World, name: str, small_disk: Path) -> None:
    """No answer, no rest of one, and what was there before stays."""
    words, flags, _ = rows(world)[name]
    if not flags:
        pytest.skip("writes no file")
    (small_disk / "rest").write_bytes(bytes(16384))
    for flag in flags:
        plain = [w for i, w in enumerate(words) if flag not in words[max(i - 1, 0) : i + 1]]
        done = world.call([*plain, flag, str(small_disk / "out")])
        assert done.rc in (1, 2) and done.err.count("\n") == 1, done.err
        assert "No space left on device" in done.err and "Traceback" not in done.err
        left = {p.name for p in small_disk.iterdir()} - {"rest"}
        assert all((small_disk / name).stat().st_size == 0 for name in left), left
        assert left <= {"out"}


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupt(world: World, name: str) -> None:
    long = rows(world)[name][2]
    if long is None:
        pytest.skip("is done at once")
    done = world.call(long, after=0.1)
    assert done.rc == -2, (done.rc, done.err)  # a shell reports 130
    lines = [line for line in done.err.splitlines() if "interrupted" in line]
    assert len(lines) == 1 and lines[0].startswith("llamapy: interrupted"), done.err
    assert "Traceback" not in done.err and "Exception" not in done.err
    if name == "bench" and done.out:  # nothing, where nothing was measured yet
        assert b"interrupted: not all repetitions were made\n" in done.out
