"""`llamapy batch` on the real demo model: answers as `run` gives them, whatever happens between."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import llamapy
from llamapy.base.paths import DEMO, find_model

ROOT = Path(llamapy.__file__).parent.parent
LLAMAPY = [sys.executable, "-m", "llamapy"]
LIMIT_S = 120
LINES = [
    {"id": "a", "prompt": "The capital of France is", "n": 8},
    {"id": "b", "prompt": "My favourite colour " * 12, "n": 3, "temperature": 1.5, "seed": 5},
    {"custom_id": "c", "body": {"prompt": "One, two, three,", "max_tokens": 12, "stop": " seven"}},
    *({"prompt": f"{i} and {i + 1} are", "n": i % 7} for i in range(10)),
]


@pytest.fixture(scope="module")
def demo() -> str:
    path = find_model(DEMO)
    if path is None:
        pytest.skip("the demo model is not there: llamapy pull demo")
    return str(path)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return path


def call(*args: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    words = [*LLAMAPY, *map(str, args)]
    return subprocess.run(words, capture_output=True, timeout=LIMIT_S, cwd=ROOT, input=data)


def batch(demo: str, lines: Path, out: Path, *more: object) -> list[bytes]:
    done = call("batch", lines, "-o", out, "-m", demo, "-t", 1, *more)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    return out.read_bytes().splitlines()


def test_every_answer_is_that_of_a_run(demo: str, lines: Path, tmp_path: Path) -> None:
    got = batch(demo, lines, tmp_path / "o8", "-np", 8, "-ub", 32, "--ordered")
    assert sorted(batch(demo, lines, tmp_path / "o1", "-np", 1)) == sorted(got)
    records = [json.loads(line) for line in got]
    assert [r.get("id", r.get("custom_id")) for r in records] == ["a", "b", "c", *range(4, 14)]
    assert "Paris" in records[0]["text"] and records[2]["finish_reason"] == "stop"
    for record, flags in (
        (records[0], ["-n", "8", "--temp", "0"]),
        (records[1], ["-n", "3", "--temp", "1.5", "-s", "5"]),
        (records[2], ["-n", "12", "--temp", "0", "--stop", " seven"]),
    ):
        line = LINES[records.index(record)]
        prompt = line.get("prompt") or line["body"]["prompt"]  # type: ignore[index]
        alone = json.loads(call("run", "-m", demo, "-p", prompt, "--json", *flags).stdout)
        for field in ("text", "ids", "finish_reason", "stop"):
            assert record[field] == alone[field]


def test_messages_are_answered_as_their_text_is(demo: str, tmp_path: Path) -> None:
    """By the template of the file, which puts a system message of its own before the first."""
    asked = {"messages": [{"role": "user", "content": "Name the capital of France."}]}
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(asked) + "\n" + json.dumps({"custom_id": "c", "body": asked}) + "\n")
    records = [json.loads(r) for r in batch(demo, path, tmp_path / "out", "-n", 12, "--ordered")]
    text = (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nName the capital of France.<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    flags = ("-n", 12, "--temp", 0, "--special", "--json")
    alone = json.loads(call("run", "-m", demo, "-p", text, *flags).stdout)
    assert "Paris" in alone["text"]
    for record in records:
        assert (record["ids"], record["finish_reason"]) == (alone["ids"], alone["finish_reason"])


def test_killed_at_any_moment(demo: str, lines: Path, tmp_path: Path) -> None:
    start = time.monotonic()
    whole = batch(demo, lines, tmp_path / "whole", "-np", 3)
    took = time.monotonic() - start
    out = tmp_path / "out"
    for _ in range(3):
        words = ["batch", str(lines), "-o", str(out), "-m", demo, "-t", "1", "-np", "3"]
        process = subprocess.Popen([*LLAMAPY, *words], cwd=ROOT)
        time.sleep(random.uniform(0.3, 1.0) * took)
        process.kill()
        process.wait()
    kept = out.read_bytes() if out.exists() else b""
    got = batch(demo, lines, out, "-np", 5)
    assert sorted(got) == sorted(whole)
    complete = kept[: kept.rfind(b"\n") + 1]
    assert out.read_bytes().startswith(complete)


def test_failures_are_records(demo: str, tmp_path: Path) -> None:
    data = b'{"prompt": "a", "n": 1}\n{"prompt"\n{"prompt": "b", "n": 99999}\n'
    out = tmp_path / "o"
    done = call("batch", "-o", out, "-m", demo, "--json", "-c", "64", data=data)
    assert done.returncode == 7 and b"2 of 3 lines failed" in done.stderr
    got = json.loads(done.stdout)
    assert (got["lines"], got["done"], got["failed"], got["command"]) == (3, 1, 2, "batch")
    by_id = {r["id"]: r for r in map(json.loads, out.read_bytes().splitlines())}
    assert [by_id[i]["status"] for i in (1, 2, 3)] == ["ok", "error", "error"]
    assert by_id[2]["error"]["code"] == 2 and by_id[3]["error"]["code"] == 4
    done = call("batch", "-o", out, "-m", demo, "-c", "64", "--temp", "1", data=data)
    assert done.returncode == 2 and b"was begun with params temp 0.0, not 1.0" in done.stderr


def test_pipes_and_streams(demo: str, tmp_path: Path) -> None:
    done = call("batch", "-m", demo, "-n", "2", data=b'{"prompt": "a"}\n')
    assert done.returncode == 0 and done.stdout.count(b"\n") == 1 and done.stderr == b""
    assert b"\x1b" not in done.stdout and json.loads(done.stdout)["counts"]["generated"] == 2
    done = call("batch", "-m", demo, "-o", tmp_path / "o")
    assert done.returncode == 2 and b"no lines to answer" in done.stderr
    done = call("batch", "-m", demo, "-o", "/no/such/o", "-n", "1", data=b'{"prompt": "a"}\n')
    assert done.returncode == 2 and b"cannot write /no/such/o" in done.stderr
    done = call("batch", "-m", demo, "-o", "/dev/full", "-n", "1", data=b'{"prompt": "a"}\n')
    assert done.returncode == 1 and b"cannot write" in done.stderr
    shell = f"{' '.join(LLAMAPY)} batch -m {demo} -n 1 <&- ; echo $?"
    done = subprocess.run(shell, shell=True, capture_output=True, timeout=LIMIT_S, cwd=ROOT)
    assert done.stdout == b"2\n" and b"no lines" in done.stderr
