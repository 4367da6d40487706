"""Ctrl-C while a long prompt is computed: from the signal to the end of the process.

    python bench/interrupt.py [-m FILE | --synthetic SHAPE:TYPE] [-p TOKENS] [-n RUNS] [-- FLAGS]

Computes the logits of a prompt once to see how long that takes, then again and again with a signal
at moments spread over the computation, and prints the times. FLAGS go to `llamapy logits`.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llamapy.app.bench.shapes import parse_spec
from llamapy.app.bench.synthetic import make_files
from llamapy.base.paths import DEMO, find_model

FIRST, LAST = 0.35, 0.95  # of the whole command's time: the prompt is being computed by then


def command(model: Path, n_tokens: int, flags: list[str], folder: Path) -> list[str]:
    tokens = folder / "tokens.i32"
    tokens.write_bytes(b"".join((7 * i % 256).to_bytes(4, "little") for i in range(n_tokens)))
    out = [sys.executable, "-m", "llamapy", "logits", "-m", str(model)]
    return [*out, "--tokens-file", str(tokens), "-o", str(folder / "out.npy"), *flags]


def interrupted(command: list[str], after_s: float) -> float | None:
    """Seconds from the signal to the end; None when the process was done before."""
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            process.wait(after_s)
        except subprocess.TimeoutExpired:
            start = time.perf_counter()
            process.send_signal(signal.SIGINT)
            process.wait()
            seconds = time.perf_counter() - start
        else:
            return None
        if process.returncode != -signal.SIGINT:
            assert process.stderr is not None
            raise SystemExit(f"ended by {process.returncode}: {process.stderr.read().decode()}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", type=Path, default=find_model(DEMO))
    parser.add_argument("--synthetic", metavar="SHAPE:TYPE")
    parser.add_argument("-p", "--n-prompt", type=int, default=2048)
    parser.add_argument("-n", "--runs", type=int, default=8)
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = args.model
        if args.synthetic:
            model = folder / "model.gguf"
            with make_files(parse_spec(args.synthetic)) as files:
                model.write_bytes(files.shards[0].view)
        if model is None:
            raise SystemExit("no model: give -m FILE or fetch one with `llamapy pull demo`")
        run = command(model, args.n_prompt, args.flags, folder)
        start = time.perf_counter()
        subprocess.run(run, check=True)
        whole = time.perf_counter() - start
        steps = [FIRST + (LAST - FIRST) * i / max(args.runs - 1, 1) for i in range(args.runs)]
        got = [ms * 1e3 for step in steps if (ms := interrupted(run, step * whole)) is not None]
    print(f"whole {whole:.2f} s, interrupted {len(got)} times: from the signal to the end")
    if got:
        print(f"median {statistics.median(got):.1f} ms, worst {max(got):.1f} ms")


if __name__ == "__main__":
    main()
