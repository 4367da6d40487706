"""The command line on the real demo model: pipes, closed streams, Ctrl-C, JSON."""

from __future__ import annotations

import json
import os
import pty
import signal
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


@pytest.fixture(scope="module")
def demo() -> str:
    path = find_model(DEMO)
    if path is None:
        pytest.skip("the demo model is not there: llamapy pull demo")
    return str(path)


def call(*args: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([*LLAMAPY, *args], capture_output=True, timeout=LIMIT_S, cwd=ROOT, **more)  # type: ignore[call-overload,no-any-return]


def test_a_sensible_continuation(demo: str) -> None:
    done = call("run", "-m", demo, "-p", "The capital of France is", "-n", "8", "--temp", "0")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Paris" in done.stdout and b"\x1b" not in done.stdout


def test_the_demo_model_stands_in(demo: str) -> None:
    done = call("run", "-n", "1", input=b"Once upon", stdin=None)
    assert done.returncode == 0 and done.stdout
    assert done.stderr.decode() == f"llamapy: no -m given, using the demo model {demo}\n"


def test_json_counts_and_reuse(demo: str) -> None:
    done = call("run", "-m", demo, "-p", "One, two,", "-n", "40", "--json", "--ignore-eos")
    got = json.loads(done.stdout)
    assert done.stderr == b"" and got["finish_reason"] == "length"
    assert got["counts"]["generated"] == 40 == len(got["ids"])
    # One graph for the prompt, one for single tokens; the last token is not evaluated.
    assert got["graph"] == {"built": 2, "reused": 38}
    assert got["model"]["architecture"] == "llama" and got["seed"] >= 0


def test_the_same_seed_gives_the_same_text(demo: str) -> None:
    args = ["run", "-m", demo, "-p", "My favourite", "-n", "12", "-s", "42", "--temp", "1.5"]
    texts = {call(*args, "-t", t).stdout for t in ("1", "2")}
    assert len(texts) == 1 and len(texts.pop()) > 10


EVERY = {
    "run": ["-p", "Hi", "-n", "2"],
    "logits": ["--tokens", "1,2", "-o", "/dev/null"],
    "graph": [],
    "tokenize": ["-p", "Hi there"],
    "inspect": [],
    "doctor": [],
    "pull": ["--list"],
}


@pytest.mark.skipif(os.name != "posix", reason="closing descriptors by the shell")
@pytest.mark.parametrize("command", EVERY)
@pytest.mark.parametrize("closed", ["</dev/null", "<&-"])
def test_no_command_waits_or_colours(demo: str, command: str, closed: str) -> None:
    where = [demo] if command == "inspect" else ["-m", demo]
    args = [command, *(where if command not in ("doctor", "pull") else []), *EVERY[command]]
    words = [sys.executable, "-W", "error", "-m", "llamapy", *args]
    line = f'"$@" {closed}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *words], capture_output=True, timeout=LIMIT_S, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout


def test_a_reader_that_leaves(demo: str) -> None:
    line = '"$@" | head -c1; echo "${PIPESTATUS[0]}"'
    args = [*LLAMAPY, "run", "-m", demo, "-p", "Hi", "-n", "60", "--ignore-eos"]
    done = subprocess.run(
        ["bash", "-c", line, "bash", *args], capture_output=True, timeout=LIMIT_S, cwd=ROOT
    )
    assert done.stdout[1:] == b"141\n" and done.stderr == b""


def test_an_output_on_a_terminal_has_no_escape_codes(demo: str) -> None:
    parent, child = pty.openpty()
    args = [*LLAMAPY, "run", "-m", demo, "-p", "Hi", "-n", "4", "--temp", "0"]
    done = subprocess.run(
        args, stdin=subprocess.DEVNULL, stdout=child, stderr=child, timeout=LIMIT_S, cwd=ROOT
    )
    os.close(child)
    shown = os.read(parent, 10000)
    os.close(parent)
    assert done.returncode == 0 and b"\x1b" not in shown and shown.endswith(b"\n")


def test_ctrl_c_keeps_the_text(demo: str, tmp_path: Path) -> None:
    args = [*LLAMAPY, "run", "-m", demo, "-p", "Hi", "--ignore-eos", "-c", "2048"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    first = os.read(process.stdout.fileno(), 1)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGINT and time.monotonic() - start < 30
    assert first and err.startswith(b"llamapy: interrupted: ")
    assert b"Traceback" not in err
