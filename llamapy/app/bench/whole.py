"""Whole runs: `llamapy run` as a process of its own, from its start to its end.

What a user waits for: the interpreter's start, opening the file, the prompt, the tokens, the end.
The process is told to print events (`--json-stream`), and the times at which they arrive are the
measurement; how long loading took it says itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import llamapy
from llamapy.app.bench.params import Case
from llamapy.app.bench.stats import agree, summary
from llamapy.base.errors import LlamapyError, UsageError

PARTS = ("start", "load", "prompt", "gen", "end")
PROSE = (
    "Of all the rivers that come down from those hills the eldest is the one that nobody has given "
    "a name, since it runs dry in most summers and is forgotten until the rain brings it back. "
)


@dataclass(slots=True)
class WholeSamples:
    """Nanoseconds of each run and of its parts; tokens as the process counted them."""

    case: Case
    ns: list[int] = field(default_factory=list)
    first_ns: list[int] = field(default_factory=list)  # from the start to the first token
    parts_ns: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in PARTS})
    warm_up_ns: list[int] = field(default_factory=list)
    n_prompt: int = 0
    n_gen: int = 0

    def figures(self) -> dict[str, Any]:
        """What the samples come to."""
        out: dict[str, Any] = {"n_prompt": self.n_prompt, "n_gen": self.n_gen}
        out |= {f"{k}_ns": v for k, v in summary(self.ns).items()}
        out["first_median_ns"] = summary(self.first_ns)["median"]
        out |= {f"{k}_median_ns": summary(v)["median"] for k, v in self.parts_ns.items()}
        out |= {"samples_ns": self.ns, "first_samples_ns": self.first_ns}
        return out | {f"{k}_samples_ns": v for k, v in self.parts_ns.items()}


def prompt_of(tokenizer: Any, n: int) -> str:
    """Prose of at least `n` tokens, as few more as whole words allow."""
    words = PROSE.split()
    low, high = 1, n
    text = " ".join(words[i % len(words)] for i in range(n))
    ends = [0]
    for i in range(n):
        ends.append(ends[-1] + len(words[i % len(words)]) + 1)
    while low < high:
        middle = (low + high) // 2
        if len(tokenizer.encode(text[: ends[middle] - 1])) >= n:
            high = middle
        else:
            low = middle + 1
    return text[: ends[low] - 1]


def command(model: str, case: Case, load_mode: str, repack: str) -> list[str]:
    """The process to start, which reads its prompt from stdin."""
    return [
        *(sys.executable, "-m", "llamapy", "run", "-m", model, "-p", "-"),
        *("-n", str(case.n_gen), "--ignore-eos", "--temp", "0", "--json-stream"),
        *("-t", str(case.n_threads), "-b", str(case.n_batch), "-ub", str(case.n_ubatch)),
        *("-ctk", case.type_k, "-ctv", case.type_v, "-lm", load_mode, "--repack", repack),
    ]


@dataclass(frozen=True, slots=True)
class WholeJob:
    """A test and the process that it times."""

    case: Case
    words: Sequence[str]
    prompt: bytes

    def run(self, samples: WholeSamples | None) -> int:
        """Nanoseconds of one process. LlamapyError, with the line it left, when it failed."""
        here = str(Path(llamapy.__file__).parent.parent)
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        with TemporaryFile() as stdin, TemporaryFile() as stderr:
            stdin.write(self.prompt)
            stdin.seek(0)
            start = time.perf_counter_ns()
            with subprocess.Popen(
                self.words,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": path},
            ) as process:
                seen = _arrivals(process, start)
            whole = time.perf_counter_ns() - start
            stderr.seek(0)
            left = stderr.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
        if process.returncode or not seen:
            raise LlamapyError(f"a run ended with {process.returncode}: {left or 'no word'}")
        if samples is not None:
            _book(samples, whole, [(at, json.loads(line)) for at, line in seen])
        return whole


def _arrivals(process: subprocess.Popen[bytes], start: int) -> list[tuple[int, bytes]]:
    """Lines of its stdout and when they came; the process is not left running."""
    assert process.stdout is not None
    try:
        out = [
            (time.perf_counter_ns() - start, line) for line in iter(process.stdout.readline, b"")
        ]
        process.wait()
    except BaseException:
        process.kill()
        raise
    return out


def _book(s: WholeSamples, whole: int, events: Sequence[tuple[int, dict[str, Any]]]) -> None:
    started = next(at for at, e in events if e["event"] == "started")
    tokens = [at for at, e in events if e["event"] == "token"]
    result = events[-1][1]
    load = int(result["timings"]["load_ms"] * 1e6)
    first, last = (tokens[0], tokens[-1]) if tokens else (events[-1][0], events[-1][0])
    s.ns.append(whole)
    s.first_ns.append(first)
    times = (started - load, load, first - started, last - first, whole - last)
    for name, ns in zip(PARTS, times, strict=True):
        s.parts_ns[name].append(ns)
    s.n_prompt, s.n_gen = result["counts"]["prompt"], result["counts"]["generated"]


def whole_runs(
    jobs: Sequence[WholeJob],
    out: list[WholeSamples],
    *,
    repetitions: int,
    warm_ups: int,
    tick: Any = lambda done, total: None,
) -> None:
    """Run each process `repetitions` times, in turns, after at most `warm_ups` that do not count:
    until two in succession take the same time. Samples go to `out` as they come."""
    out += [WholeSamples(job.case) for job in jobs]
    for samples, job in zip(out, jobs, strict=True):
        while len(samples.warm_up_ns) < warm_ups and not agree(samples.warm_up_ns):
            samples.warm_up_ns.append(job.run(None))
    done, total = 0, len(jobs) * repetitions
    for _ in range(repetitions):
        for samples, job in zip(out, jobs, strict=True):
            tick(done, total)
            job.run(samples)
            done += 1
    tick(done, total)


def check_source(source: object) -> None:
    """A process of its own opens a file: UsageError for weights made here."""
    if not isinstance(source, Path):
        raise UsageError("--end-to-end needs a file (-m): synthetic weights exist only in here")
