"""A whole benchmark: models opened one after the other, everything asked for measured, one report.

The report is plain data (`SCHEMA_VERSION`), the same that `-o json` prints.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llamapy.app.bench import cost, roofline, whole
from llamapy.app.bench.batched import BatchedRunner, figures
from llamapy.app.bench.conditions import conditions, load_average, throttled_us
from llamapy.app.bench.measure import WARM_UPS, Depths, How, Runner, Samples, measure
from llamapy.app.bench.ops import OpTable, op_times
from llamapy.app.bench.params import BatchedCase, Case
from llamapy.app.bench.phases import phases
from llamapy.app.bench.shapes import Spec
from llamapy.app.bench.stats import agree, steady, summary
from llamapy.app.bench.synthetic import make_files
from llamapy.app.identity import model_hash
from llamapy.base.errors import LlamapyError
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.splits import open_model
from llamapy.runtime.engine import Engine

SCHEMA_VERSION = 2  # 2: shares of reading are of the looks around the test
MANY = 100  # a measurement stands for runs of so many times its length
ABORTED = 130  # exit code of the error that ends a run on request
Report = dict[str, Any]
Rows = dict[str, list[Report]]
Tick = Callable[[str, int, int], None]  # what, repetitions done, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure. `models`: paths of files and specs of synthetic ones; each is opened anew
    for each load mode and way to repack. `whole`: whole runs, of prompts and generations."""

    models: Sequence[Path | Spec]
    cases: Sequence[Case] = ()
    batched: Sequence[BatchedCase] = ()
    whole: Sequence[Case] = ()
    repetitions: int = 5
    warm_up: bool = True
    until_steady: float = 0.0
    interleave: bool = True
    load_modes: Sequence[str] = ("mmap",)
    repacks: Sequence[str | None] = (None,)
    overcommit: bool = False
    roofline: bool = False
    phases: bool = False
    ops: bool = False


def bench(job: Job, tick: Tick = lambda what, done, total: None) -> Report:
    """Run it. Raises what opening a model and decoding raise. Interrupted, what there is by then;
    KeyboardInterrupt when that is nothing."""
    report: Report = {
        "schema_version": SCHEMA_VERSION,
        "command": "bench",
        "conditions": conditions(),
    }
    rows: Rows = {name: [] for name in ("tests", "batched", "end_to_end", "phases", "ops")}
    tops: dict[int, roofline.Ceilings] = {}
    try:
        tops = _look(job, {})
        for source, mode, again in itertools.product(job.models, job.load_modes, job.repacks):
            _one_model(source, mode, again, job, tick, rows)
        tops = _look(job, tops)
        report["interrupted"] = False
    except (KeyboardInterrupt, LlamapyError) as e:
        if isinstance(e, LlamapyError) and e.exit_code != ABORTED:
            raise
        if not any(rows.values()):
            raise KeyboardInterrupt from e
        report["interrupted"], tops = True, {}
    if tops:
        report["roofline"] = [asdict(top) for top in tops.values()]
        for test in rows["tests"]:
            test.update(_share(test, tops[test["n_threads"]]))
    for name, found in rows.items():
        if name == "tests" or found:
            report[name] = found
    report["conditions"]["load_average_after"] = load_average()
    before, after = report["conditions"]["throttled_us"], throttled_us()
    both = before is not None and after is not None
    report["conditions"]["throttled_us"] = after - before if both else None
    return report


def _one_model(
    source: Path | Spec, mode: str, repack: str | None, job: Job, tick: Tick, rows: Rows
) -> None:
    with _Opened(source, job, mode, repack) as opened:
        opened.tests(job, tick, rows["tests"])
        opened.batched(job, tick, rows["batched"])
        if job.phases:
            rows["phases"].append({**opened.about(), **opened.phases(job)})
        if job.ops:
            rows["ops"] += [{**opened.about(), **_op_row(t)} for t in opened.ops(job)]
        runs = opened.whole_jobs(job)
    _whole(opened, runs, job, tick, rows["end_to_end"])


def _look(job: Job, before: dict[int, roofline.Ceilings]) -> dict[int, roofline.Ceilings]:
    """Ceilings by number of threads, the better of now and before."""
    if not job.roofline:
        return {}
    out = {}
    for n in dict.fromkeys(case.n_threads for case in job.cases):
        now = roofline.ceilings(n)
        out[n] = now.best(before[n]) if n in before else now
    return out


def _share(test: Report, top: roofline.Ceilings) -> Report:
    """How much of the machine a test used: the time that its ceilings would take, over the time
    that it took, in the median repetition. Reading varies the most: each repetition is held against
    the looks around it."""
    cost_ = cost.Cost(test["prompt_int_ops"], test["prompt_float_ops"], test["gen_bytes"])
    reads = test["samples_read_bytes"]
    ideals = [cost_.ideal_s(read, top.int8_ops, top.fma_ops) * 1e9 for read in reads]
    if any(map(math.isnan, ideals)):
        return {"ideal_ns": None, "share_of_peak": None}
    shares = [ideal / ns for ideal, ns in zip(ideals, test["samples_ns"], strict=True)]
    return {"ideal_ns": statistics.median(ideals), "share_of_peak": statistics.median(shares)}


def _whole(
    opened: _Opened,
    runs: Sequence[whole.WholeJob],
    job: Job,
    tick: Tick,
    rows: list[Report],
) -> None:
    """Whole runs of a model, which is closed again here: its memory is theirs."""
    found: list[whole.WholeSamples] = []
    try:
        whole.whole_runs(
            runs,
            found,
            repetitions=job.repetitions,
            warm_ups=WARM_UPS if job.warm_up else 0,
            tick=lambda done, total: tick(f"{opened.label}, whole runs", done, total),
        )
    finally:
        rows += [_whole_row(opened, s) for s in found if s.ns]


def _whole_row(opened: _Opened, s: whole.WholeSamples) -> Report:
    name = f"run pp{s.case.n_prompt}+tg{s.case.n_gen}"
    row = {**opened.head(loaded=False), "test": name, **asdict(s.case), **s.figures()}
    row |= {"steady": steady(s.ns), "warm_up_ns": s.warm_up_ns}
    return row | {"warmed": agree(s.warm_up_ns) if s.warm_up_ns else None}


class _Opened:
    """One model, opened on the clock. Making synthetic weights does not count."""

    def __init__(self, source: Path | Spec, job: Job, load_mode: str, repack: str | None) -> None:
        if job.whole:
            whole.check_source(source)
        self.load_mode = load_mode
        made = make_files(source) if isinstance(source, Spec) else None
        if made is not None:  # in memory already, and no file to read
            load_mode = load_mode.replace("read", "mmap")
        start = time.perf_counter()
        files = open_model(source) if isinstance(source, Path) else made
        assert files is not None
        self.engine = Engine.of_files(
            files,
            PlaceFlags(),
            load_mode=load_mode,
            repack=repack,
            overcommit=job.overcommit,
        )
        every: list[Case | BatchedCase] = [*job.cases, *job.batched]
        self.engine.will_generate(max((case.n_gen for case in every), default=0) * MANY)
        self.load_s = time.perf_counter() - start
        e = self.engine.hparams.experts
        self.weights = cost.weigh(self.engine.weights, e.n, e.n_used)
        self.synthetic = isinstance(source, Spec)
        self.filename = source.name if isinstance(source, Spec) else str(source)
        self.label = Path(self.filename).name
        self._about = {
            "model_filename": self.filename,
            "model_type": model_type(self.engine, self.filename, self.synthetic),
            "model_size": self.weights.file_bytes,
            "model_n_params": self.weights.n_elements,
            "model_hash": None if self.synthetic else model_hash(files),
            "synthetic": self.synthetic,
        }

    def about(self) -> Report:
        """Which model."""
        return self._about

    def head(self, loaded: bool = True) -> Report:
        """And how it was opened; `loaded`: in this process."""
        repacked = self.engine.repacked
        out = {**self._about, "backends": "CPU", "load_mode": self.load_mode}
        if loaded:
            return {**out, "load_s": self.load_s, "repack": repacked.facts()}
        return {**out, "repack": {"asked": repacked.asked}}

    def tests(self, job: Job, tick: Tick, rows: list[Report]) -> None:
        depths, found = Depths(job.cases), list[Samples[Case]]()
        try:
            measure(
                job.cases,
                lambda case: Runner(self.engine, case, depths),
                self._how(job),
                found,
                lambda done, total: tick(self.label, done, total),
            )
        finally:
            rows += [{**self.head(), **self._test(s)} for s in found]

    def batched(self, job: Job, tick: Tick, rows: list[Report]) -> None:
        found = list[Samples[BatchedCase]]()
        try:
            measure(
                job.batched,
                lambda case: BatchedRunner(self.engine, case),
                replace(self._how(job), look=None),
                found,
                lambda done, total: tick(f"{self.label}, batched", done, total),
            )
        finally:
            rows += [{**self.head(), **_common(s), **figures(s)} for s in found]

    def whole_jobs(self, job: Job) -> list[whole.WholeJob]:
        out = []
        for case in job.whole:
            prompt = whole.prompt_of(self.engine.tokenizer, case.n_prompt)
            asked = self.engine.repacked.asked
            words = whole.command(self.filename, case, self.load_mode, asked)
            out.append(whole.WholeJob(case, words, prompt.encode()))
        return out

    def _how(self, job: Job) -> How:
        return How(
            repetitions=job.repetitions,
            warm_up=job.warm_up,
            interleave=job.interleave,
            until_steady=job.until_steady,
            look=roofline.read_rate if job.roofline else None,
        )

    def _test(self, s: Samples[Case]) -> Report:
        n = s.case.n_prompt + s.case.n_gen
        rates = [n * 1e9 / ns for ns in s.ns]
        out = _common(s)
        for unit, values in (("ns", [float(v) for v in s.ns]), ("ts", rates)):
            found = summary(values)
            for ours, theirs in (("mean", "avg"), ("stddev", "stddev")):
                out[f"{theirs}_{unit}"] = found[ours]
            out |= {f"{k}_{unit}": found[k] for k in ("median", "mad", "min", "max")}
        arch, hp = self.engine.arch, self.engine.hparams
        kept = cost.Kept(arch.cache(hp), arch.states(hp))
        needs = cost.cost(kept, self.weights, s.case)
        return {
            **out,
            "depth_refills": s.refilled,
            "depth_loads": s.loaded,
            **asdict(needs),
            "samples_ns": s.ns,
            "samples_ts": rates,
            **({"samples_read_bytes": s.reads} if s.reads else {}),
        }

    def phases(self, job: Job) -> Report:
        n_prompt = max(case.n_prompt for case in job.cases) or 1
        n_gen = max(case.n_gen for case in job.cases) or 1
        case = _like(job.cases[0], n_prompt, n_gen, 0)
        return phases(self.engine, case, self.load_s, job.repetitions).as_dict()

    def ops(self, job: Job) -> list[OpTable]:
        """Of one token after the deepest test's depth, and of a prompt's ubatch."""
        first, depth = job.cases[0], max(case.n_depth for case in job.cases)
        n = min(max(case.n_prompt for case in job.cases) or 1, first.n_ubatch, first.n_batch)
        case = _like(first, n, 1, depth)
        with self.engine.context(
            n_ctx=case.n_ctx,
            n_batch=case.n_batch,
            n_ubatch=case.n_ubatch,
            type_k=case.type_k,
            type_v=case.type_v,
            n_threads=case.n_threads,
        ) as ctx:
            return [op_times(ctx, size, depth=depth) for size in dict.fromkeys((1, n))]

    def __enter__(self) -> _Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()


def _common(s: Samples[Any]) -> Report:
    """What every kind of test has."""
    at = datetime.fromtimestamp(s.started_at, UTC).isoformat(timespec="seconds")
    return {
        "test": s.case.name,
        **asdict(s.case),
        "test_time": at,
        "steady": steady(s.ns),
        "warmed": s.warmed,
        "warm_up_ns": s.warm_up_ns,
        "graphs_built": s.n_built,
        "graphs_reused": s.n_reused,
    }


def _like(case: Case, n_prompt: int, n_gen: int, n_depth: int) -> Case:
    sizes = {"n_prompt": n_prompt, "n_gen": n_gen, "n_depth": n_depth}
    return Case(**{**asdict(case), **sizes})


def _op_row(t: OpTable) -> Report:
    return {
        "graph": t.graph,
        "whole_ns": t.whole_ns,
        "sum_ns": t.sum_ns,
        "kernels": [asdict(row) for row in t.rows],
    }


def model_type(engine: Engine, filename: str, synthetic: bool) -> str:
    """`llama 1B q4_K`: architecture, size label and the type of most of its weights."""
    if synthetic:
        return filename
    gguf, by_type = engine.gguf, dict[str, int]()
    for t in engine.weights.values():
        by_type[t.type.name] = by_type.get(t.type.name, 0) + t.n_elements
    most = max(by_type, key=lambda name: by_type[name])
    label = gguf.get_str("general.size_label", "").strip()
    return " ".join(part for part in (engine.arch.name, label, most) if part)
