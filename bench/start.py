"""Start of the process to the first byte of the answer, whole command, warm file cache.

    python bench/start.py [-m FILE] [-n RUNS] [--peer 'OTHER COMMAND']

Runs ours and the peer's command alternately and prints the median, the best, and the ratio. The
peer's command must print its answer (and nothing before it) to stdout.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import time

from llamapy.base.paths import DEMO, find_model

PROMPT = "The capital of France is"


def first_byte(command: list[str]) -> float:
    """Seconds until the command's first byte on stdout."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        got = process.stdout.read(1)
        seconds = time.perf_counter() - start
        process.stdout.read()
    if not got or process.returncode:
        raise SystemExit(f"no answer from {shlex.join(command)} (exit {process.returncode})")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", default=find_model(DEMO))
    parser.add_argument("-n", "--runs", type=int, default=7)
    parser.add_argument("--peer")
    args = parser.parse_args()
    if args.model is None:
        raise SystemExit("no model: give -m FILE or fetch one with `llamapy pull demo`")
    commands = {
        "llamapy": [
            *(sys.executable, "-m", "llamapy", "run", "-m", str(args.model), "-n", "4"),
            *("--temp", "0", "-p", PROMPT),
        ]
    }
    if args.peer:
        commands["peer"] = shlex.split(args.peer)
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():
        first_byte(command)  # warm
    for _ in range(args.runs):
        for name, command in commands.items():
            seconds[name].append(first_byte(command))
    for name, values in seconds.items():
        print(f"{name}: median {statistics.median(values):.3f} s, best {min(values):.3f} s")
    if args.peer:
        ratio = statistics.median(
            a / b for a, b in zip(seconds["llamapy"], seconds["peer"], strict=True)
        )
        print(f"ours / peer, median of pairs: {ratio:.2f}")


if __name__ == "__main__":
    main()
