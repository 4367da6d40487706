"""What `llamapy plan` says a run takes, and the most it was seen to take.

    python bench/peak.py [-m FILE]... [--synthetic SHAPE:TYPE] [-c CTX]

The peak is the largest resident set of the whole process (`ru_maxrss`, the system's VmHWM): pages
of the program and of the model's file count as well as memory of its own, once they are touched.
Runs fill their context, so that every page of the cache is touched: a long text cut to the context
less 64 tokens, then 64 generated ones. A synthetic model is written to a file and has no
vocabulary: its run gets ids from all over the table of tokens, whose rows are read one by one (a
text of few words leaves most of its pages alone), and gives the logits of the last one.

This process stays small and starts nothing but runs: a child's peak begins with its parent's size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

N_GEN = 64
TOO_FAR = 0.03
STEP, N_VOCAB = 5003, 32000
LLAMAPY = [sys.executable, "-m", "llamapy"]
WRITE = """
import sys
from llamapy.app.bench.shapes import parse_spec
from llamapy.app.bench.synthetic import make_files
with make_files(parse_spec(sys.argv[1])) as files, open(sys.argv[2], "wb") as f:
    f.write(files.shards[0].view)
"""


def peak_of(command: list[str]) -> int:
    """Bytes of the largest resident set of a command that must succeed."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"exit {process.returncode}: {' '.join(command)}")
    return usage.ru_maxrss * 1024


def planned(model: str, flags: list[str]) -> dict[str, int]:
    command = [*LLAMAPY, "plan", "-m", model, *flags, "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    row: dict[str, int] = found["devices"][0]
    return row


def generate(model: str, n_ctx: int, repack: str, folder: Path) -> None:
    """A run of a real model, and what was planned for it."""
    text = folder / "long.txt"
    text.write_text("The quick brown fox jumps over the lazy dog. " * (n_ctx // 4))
    flags = ["-c", str(n_ctx), "--repack", repack]
    n_gen = ["-n", str(N_GEN), "--ignore-eos", "--temp", "0", "--on-overflow", "truncate-left"]
    seen = peak_of([*LLAMAPY, "run", "-m", model, "-f", str(text), *n_gen, *flags])
    report(Path(model).name, n_ctx, repack, planned(model, flags), seen)


def evaluate(spec: str, n_ctx: int, folder: Path) -> None:
    """The same of a synthetic one."""
    model, ids, out = (str(folder / name) for name in ("model.gguf", "ids.i32", "out.npy"))
    subprocess.run([sys.executable, "-c", WRITE, spec, model], check=True)
    tokens = ((i * STEP % N_VOCAB).to_bytes(4, "little") for i in range(n_ctx))
    Path(ids).write_bytes(b"".join(tokens))
    flags = ["-c", str(n_ctx), "--repack", "off"]
    seen = peak_of(
        [*LLAMAPY, "logits", "-m", model, "--tokens-file", ids, "--last", "-o", out] + flags
    )
    report(spec, n_ctx, "off", planned(model, flags), seen)


def report(name: str, n_ctx: int, repack: str, plan: dict[str, int], seen: int) -> None:
    off = plan["peak_bytes"] / seen - 1
    mark = "" if abs(off) <= TOO_FAR else "  TOO FAR"
    sizes = f"planned {plan['peak_bytes'] / 2**20:7.1f} MiB, seen {seen / 2**20:7.1f} MiB"
    print(f"{name:<24} -c {n_ctx:<6} --repack {repack:<5} {sizes}, {off:+.1%}{mark}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-m", "--model", action="append", default=[])
    parser.add_argument("--synthetic", metavar="SHAPE:TYPE")
    parser.add_argument("-c", "--ctx-size", type=int, default=2048)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        for model in args.model or ["demo"]:
            for repack in ("off", "auto"):
                generate(model, args.ctx_size, repack, Path(name))
        if args.synthetic:
            evaluate(args.synthetic, args.ctx_size, Path(name))


if __name__ == "__main__":
    main()
