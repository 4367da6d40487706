"""A whole benchmark: models opened one after the other, everything asked for measured, one report.

The report is plain data (`SCHEMA_VERSION`), the same that `-o json` prints.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from llamapy.app.bench import cost, roofline
from llamapy.app.bench.conditions import conditions, load_average, throttled_us
from llamapy.app.bench.measure import Samples, measure
from llamapy.app.bench.ops import OpTable, op_times
from llamapy.app.bench.params import Case
from llamapy.app.bench.phases import phases
from llamapy.app.bench.shapes import Spec
from llamapy.app.bench.stats import summary
from llamapy.app.bench.synthetic import make_files
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.splits import open_model
from llamapy.runtime.engine import Engine

SCHEMA_VERSION = 2  # 2: shares of reading are of the looks around the test
MANY = 100  # a measurement stands for runs of so many times its length
STEADY = 0.05  # MAD over median up to which the samples of a test agree
Report = dict[str, Any]
Tick = Callable[[str, int, int], None]  # what, repetitions done, of how many


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to measure. `models`: paths of files and specs of synthetic ones."""

    models: Sequence[Path | Spec]
    cases: Sequence[Case]
    repetitions: int = 5
    warm_up: bool = True
    interleave: bool = True
    load_mode: str = "mmap"
    repack: str | None = None
    roofline: bool = False
    phases: bool = False
    ops: bool = False


def bench(job: Job, tick: Tick = lambda what, done, total: None) -> Report:
    """Run it. Raises what opening a model and decoding raise."""
    report: Report = {"schema_version": SCHEMA_VERSION, "conditions": conditions()}
    tops = _look(job, {})
    tests: list[Report] = []
    more: dict[str, list[Report]] = {"phases": [], "ops": []}
    for source in job.models:
        with _Opened(source, job) as opened:
            tests += opened.tests(job, tick)
            if job.phases:
                more["phases"].append({**opened.about(), **opened.phases(job)})
            if job.ops:
                more["ops"] += [{**opened.about(), **_op_row(t)} for t in opened.ops(job)]
    tops = _look(job, tops)
    if job.roofline:
        report["roofline"] = [asdict(top) for top in tops.values()]
        for test in tests:
            test.update(_share(test, tops[test["n_threads"]]))
    report["tests"] = tests
    for name, rows in more.items():
        if getattr(job, name):
            report[name] = rows
    report["conditions"]["load_average_after"] = load_average()
    before, after = report["conditions"]["throttled_us"], throttled_us()
    both = before is not None and after is not None
    report["conditions"]["throttled_us"] = after - before if both else None
    return report


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
    """How much of the machine a test used: the time that its ceilings would take, over the median
    time that it took. Reading varies the most: the mean of the looks before and after counts."""
    read = (test["read_bytes_before"] + test["read_bytes_after"]) / 2
    cost_ = cost.Cost(test["prompt_int_ops"], test["prompt_float_ops"], test["gen_bytes"])
    ideal = cost_.ideal_s(read, top.int8_ops, top.fma_ops)
    known = not math.isnan(ideal)
    return {
        "ideal_ns": ideal * 1e9 if known else None,
        "share_of_peak": ideal * 1e9 / test["median_ns"] if known else None,
    }


class _Opened:
    """One model, opened on the clock. Making synthetic weights does not count."""

    def __init__(self, source: Path | Spec, job: Job) -> None:
        load_mode = job.load_mode
        made = make_files(source) if isinstance(source, Spec) else None
        if made is not None:  # in memory already, and no file to read
            load_mode = load_mode.replace("read", "mmap")
        start = time.perf_counter()
        files = open_model(source) if isinstance(source, Path) else made
        assert files is not None
        self.engine = Engine.of_files(files, PlaceFlags(), load_mode=load_mode, repack=job.repack)
        self.engine.will_generate(max((case.n_gen for case in job.cases), default=0) * MANY)
        self.load_s = time.perf_counter() - start
        e = self.engine.hparams.experts
        self.weights = cost.weigh(self.engine.weights, e.n, e.n_used)
        self.synthetic = isinstance(source, Spec)
        self.filename = source.name if isinstance(source, Spec) else str(source)

    def about(self) -> Report:
        """Which model."""
        return {
            "model_filename": self.filename,
            "model_type": model_type(self.engine, self.filename, self.synthetic),
            "model_size": self.weights.file_bytes,
            "model_n_params": self.weights.n_elements,
            "synthetic": self.synthetic,
        }

    def tests(self, job: Job, tick: Tick) -> list[Report]:
        label = Path(self.filename).name
        samples = measure(
            self.engine,
            job.cases,
            repetitions=job.repetitions,
            warm_up=job.warm_up,
            interleave=job.interleave,
            tick=lambda done, total: tick(label, done, total),
            look=roofline.read_rate if job.roofline else None,
        )
        head = {
            **self.about(),
            "backends": "CPU",
            "load_s": self.load_s,
            "repack": self.engine.repacked.facts(),
        }
        return [{**head, **self._test(s)} for s in samples]

    def _test(self, s: Samples) -> Report:
        n = s.case.n_prompt + s.case.n_gen
        rates = [n * 1e9 / ns for ns in s.ns]
        out: Report = {"test": s.case.name, **asdict(s.case)}
        out["test_time"] = datetime.fromtimestamp(s.started_at, UTC).isoformat(timespec="seconds")
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
            **dict(zip(("read_bytes_before", "read_bytes_after"), s.reads, strict=False)),
            "steady": out["mad_ns"] <= STEADY * out["median_ns"],
            "graphs_built": s.n_built,
            "graphs_reused": s.n_reused,
            "depth_refills": s.refilled,
            **asdict(needs),
            "samples_ns": s.ns,
            "samples_ts": rates,
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
