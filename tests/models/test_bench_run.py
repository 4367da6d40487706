"""The benchmark on small models: what is decoded, how often, and what the report holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import unpack

from llamapy import Model
from llamapy.app.bench import batched as batched_module
from llamapy.app.bench import roofline
from llamapy.app.bench.batched import BatchedRunner
from llamapy.app.bench.measure import WARM_UPS, Depths, How, Runner, Samples, measure
from llamapy.app.bench.ops import op_times
from llamapy.app.bench.params import BatchedCase, Case
from llamapy.app.bench.run import Job, bench
from llamapy.app.bench.shapes import parse_spec
from llamapy.app.bench.synthetic import make_files
from llamapy.ffi.pool import Aborted
from llamapy.loader.place_flags import PlaceFlags
from llamapy.runtime.context import Context
from llamapy.runtime.engine import Engine

Open = Callable[[str], Model]
Call = tuple[int, str, int]  # tokens, wanted logits, position of the first


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Every call of `decode`, which still decodes."""
    calls: list[Call] = []
    real = Context.decode

    def decode(self: Context, tokens: Any, *, logits: str = "last", **more: Any) -> Any:
        calls.append((len(tokens), logits, self.n_past()))
        return real(self, tokens, logits=logits, **more)

    monkeypatch.setattr(Context, "decode", decode)
    return calls


def run(model: Any, cases: list[Case], repetitions: int, **how: Any) -> list[Samples[Case]]:
    depths, tick = Depths(cases), how.pop("tick", lambda done, total: None)
    how = {"repetitions": repetitions, "warm_up": False, **how}
    out: list[Samples[Case]] = []
    measure(cases, lambda case: Runner(model, case, depths), How(**how), out, tick)
    return out


def test_prompt_in_batches_then_one_token_at_a_time(
    open_model: Open, decoded: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamapy.app.bench.measure.WARM_UP_GEN", 2)
    case = Case(n_prompt=20, n_gen=3, n_batch=8, n_ubatch=4)
    runner = Runner(open_model("llama-dense"), case)
    assert runner.ctx.n_ctx == 23
    runner.warm_up()
    prompt = [(8, "last", 0), (8, "last", 8), (4, "last", 16)]
    n = len(runner.samples.warm_up_ns)
    assert decoded == [*prompt, (1, "last", 20), (1, "last", 21)] * n and 2 <= n <= WARM_UPS
    decoded.clear()
    runner.repeat()
    runner.repeat()
    one = [*prompt, (1, "last", 20), (1, "last", 21), (1, "last", 22)]
    assert decoded == one * 2
    assert len(runner.samples.ns) == 2 and min(runner.samples.ns) > 0
    assert all(0 < p < t for p, t in zip(runner.samples.prompt_ns, runner.samples.ns, strict=True))
    runner.close()


@pytest.mark.parametrize(
    ("times", "n", "warmed"),
    [([100, 104], 2, True), ([100, 90, 91], 3, True), ([100, 90, 80, 70], 4, False)],
)
def test_a_warm_up_goes_on_until_two_runs_agree(
    open_model: Open, monkeypatch: pytest.MonkeyPatch, times: list[int], n: int, warmed: bool
) -> None:
    left = list(times)
    monkeypatch.setattr(Runner, "_once", lambda self, n_gen: (left.pop(0), 0))
    runner = Runner(open_model("llama-dense"), Case(n_prompt=1, n_gen=0))
    assert runner.samples.warmed is None
    runner.warm_up()
    assert runner.samples.warm_up_ns == times[:n] and runner.samples.warmed is warmed
    runner.close()


def test_repetitions_go_on_until_they_are_steady(
    open_model: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {4: [100, 200, 100, 100, 100], 5: [100, 100, 100]}
    monkeypatch.setattr(Runner, "_once", lambda self, n: (left[self.case.n_prompt].pop(0), 0))
    cases = [Case(n_prompt=4, n_gen=0), Case(n_prompt=5, n_gen=0)]
    ticks: list[tuple[int, int]] = []
    a, b = run(
        open_model("llama-dense"),
        cases,
        2,
        until_steady=60.0,
        tick=lambda done, total: ticks.append((done, total)),
    )
    assert (a.ns, b.ns) == ([100, 200, 100], [100, 100, 100])  # two samples cannot tell
    assert ticks[-1] == (6, 6) and ticks[0] == (0, 4)


def test_the_depth_is_filled_once_and_not_timed(open_model: Open, decoded: list[Call]) -> None:
    case = Case(n_prompt=0, n_gen=2, n_depth=40)
    (s,) = run(open_model("llama-dense"), [case], 3)
    assert decoded == [(40, "last", 0)] + [(1, "last", 40), (1, "last", 41)] * 3
    assert (s.refilled, s.loaded) == (1, 0) and s.n_built + s.n_reused == 6


def test_a_depth_that_was_forgotten_is_loaded(
    open_model: Open, decoded: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "seq_rm", lambda *a: False)
    case = Case(n_prompt=0, n_gen=1, n_depth=9)
    (s,) = run(open_model("gemma3-dense"), [case], 3)
    assert decoded == [(9, "last", 0)] + [(1, "last", 9)] * 3
    assert (s.refilled, s.loaded) == (1, 2)


def test_a_depth_is_not_saved_without_memory_for_it(
    open_model: Open, decoded: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamapy.app.bench.measure.available_bytes", lambda: 1000)
    cases = [Case(n_prompt=0, n_gen=1, n_depth=9)] * 2
    found = run(open_model("gemma3-dense"), cases, 1)
    assert decoded == [(9, "last", 0), (1, "last", 9)] * 2
    assert [(s.refilled, s.loaded) for s in found] == [(1, 0), (1, 0)]


def test_tests_of_one_depth_share_it(open_model: Open, decoded: list[Call]) -> None:
    cases = [Case(n_prompt=3, n_gen=0, n_depth=9), Case(n_prompt=0, n_gen=1, n_depth=9)]
    cases += [Case(n_prompt=0, n_gen=1, n_depth=9, type_k="f32")]
    found = run(open_model("llama-dense"), cases, 1)
    assert decoded == [
        *[(9, "last", 0), (3, "last", 9)],
        (1, "last", 9),
        *[(9, "last", 0), (1, "last", 9)],  # of another type
    ]
    assert [(s.refilled, s.loaded) for s in found] == [(1, 0), (0, 1), (1, 0)]


def test_repetitions_take_turns(open_model: Open, decoded: list[Call]) -> None:
    cases = [Case(n_prompt=5, n_gen=0), Case(n_prompt=0, n_gen=1)]
    ticks: list[tuple[int, int]] = []
    model = open_model("llama-dense")
    run(model, cases, 2, tick=lambda done, total: ticks.append((done, total)))
    assert [n for n, _, _ in decoded] == [5, 1, 5, 1]
    assert ticks == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]
    decoded.clear()
    run(model, cases, 2, interleave=False)
    assert [n for n, _, _ in decoded] == [5, 5, 1, 1]


@pytest.mark.parametrize(("shared", "n_kv"), [(False, 24), (True, 14)])
def test_sequences_together(
    open_model: Open, monkeypatch: pytest.MonkeyPatch, shared: bool, n_kv: int
) -> None:
    """Prompts of all sequences (or one) in batches, then one token of each per step."""
    batches: list[Any] = []
    real = Context.decode_batch
    monkeypatch.setattr(
        Context, "decode_batch", lambda self, b: (batches.append(b), real(self, b))[1]
    )
    case = BatchedCase(n_prompt=5, n_gen=3, n_parallel=3, shared=shared, n_batch=8)
    assert case.n_ctx == n_kv and case.name == "pp5+tg3 x3" + " shared" * shared
    runner = BatchedRunner(open_model("llama-dense"), case)
    runner.repeat()
    prompts = [b for b in batches if b.n_tokens != 3]
    assert sum(b.n_tokens for b in prompts) == (5 if shared else 15)
    assert sum(b.n_outputs for b in prompts) == (1 if shared else 3)
    steps = batches[-3:]
    assert [b.n_outputs for b in steps] == [3, 3, 3]
    assert [b.pos.tolist() for b in steps] == [[p] * 3 for p in (5, 6, 7)]
    assert [runner.ctx.n_past(s) for s in range(3)] == [8, 8, 8]
    runner.samples.ns, runner.samples.prompt_ns = [6_000_000_000], [2_000_000_000]
    got = batched_module.figures(runner.samples)
    n_prompt = 5 if shared else 15
    assert (got["prompt_median_ts"], got["gen_median_ts"]) == (n_prompt / 2, 9 / 4)
    assert got["median_ts"] == n_kv / 6 and got["n_kv"] == n_kv
    assert got["gen_samples_ns"] == [4_000_000_000]
    runner.close()


def test_one_sequence_after_the_other(open_model: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts together, then all tokens of the first sequence, all of the second, and so on."""
    batches: list[Any] = []
    real = Context.decode_batch
    monkeypatch.setattr(
        Context, "decode_batch", lambda self, b: (batches.append(b), real(self, b))[1]
    )
    case = BatchedCase(n_prompt=4, n_gen=2, n_parallel=3, separate=True)
    assert case.n_ctx == 18 and case.name == "pp4+tg2 x3 separate"
    runner = BatchedRunner(open_model("llama-dense"), case)
    runner.repeat()
    first, *steps = batches
    assert first.n_tokens == 12
    steps_of = [(b.seqs, b.pos.tolist(), b.n_outputs) for b in steps]
    assert steps_of == [(((s,),), [pos], 1) for s in range(3) for pos in (4, 5)]
    runner.close()


def test_record_by_record_is_the_whole_graph(open_model: Open) -> None:
    """Every kernel of the plan is there, and what follows is computed from the same bits."""
    with open_model("llama-dense").context(n_ctx=64, n_threads=2) as ctx:
        table = op_times(ctx, 8, depth=3, passes=2)
        assert table.graph == "prompt of 8 @ d3" and table.whole_ns > 0
        kernels = {row.kernel.split("-")[0]: row for row in table.rows}
        assert kernels["mul_mat"].count == 2 * 7 + 1 and kernels["mul_mat"].n_ops > 0
        assert "flash_attn" in kernels and kernels["flash_attn"].n_ops == 0
        assert [row.ns for row in table.rows] == sorted((r.ns for r in table.rows), reverse=True)
        assert ctx.n_past() == 3
        decode = op_times(ctx, 1, passes=1)
        assert decode.graph == "decode" and ctx.n_past() == 0


def test_records_alone_give_the_same_logits(open_model: Open) -> None:
    from llamapy.app.bench.ops import _Watch
    from llamapy.runtime.batch import single, split_simple

    tokens = [i * 7 % 128 for i in range(20)]
    with open_model("gemma3-dense").context(n_ctx=64, n_threads=2) as ctx:
        (ubatch,) = split_simple(single(tokens, 0, 0, "all"), 64)
        want = ctx.decode(tokens, logits="all")
        ctx.clear()
        got = ctx.process_ubatch(ubatch, _Watch(alone=True).run)
        assert np.array_equal(got, want)


def test_a_whole_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llamapy.app.bench.roofline.LOOK_S", 0.05)
    looks: list[int] = []
    before = roofline.read_rate

    def look(n_threads: int) -> float:
        assert before(n_threads) > 0
        looks.append(n_threads)
        return len(looks) * 1e9

    monkeypatch.setattr(roofline, "ceilings", lambda n: roofline.Ceilings(n, 7e9, 1e12, 1e11))
    monkeypatch.setattr(roofline, "read_rate", look)
    path = unpack("llama-dense", tmp_path)
    cases = [Case(n_prompt=6, n_gen=0, n_threads=2), Case(n_prompt=0, n_gen=3, n_threads=2)]
    job = Job(models=[path], cases=cases, repetitions=2, roofline=True, phases=True, ops=True)
    report = bench(job)
    json.dumps(report, allow_nan=False)
    assert report["schema_version"] == 2 and report["conditions"]["isa"]
    pp, tg = report["tests"]
    assert (pp["test"], tg["test"]) == ("pp6", "tg3")
    assert pp["model_filename"] == str(path) and pp["model_type"].startswith("llama")
    assert len(pp["samples_ns"]) == len(pp["samples_ts"]) == 2
    assert pp["samples_ts"][0] == pytest.approx(6e9 / pp["samples_ns"][0])
    assert pp["min_ns"] == min(pp["samples_ns"]) and pp["graphs_built"] + pp["graphs_reused"] == 2
    assert pp["prompt_float_ops"] > 0 and tg["gen_bytes"] > 0
    (top,) = report["roofline"]
    assert top["n_threads"] == 2 and top["read_bytes"] > 0
    assert looks == [2] * 5  # around each repetition
    assert pp["samples_read_bytes"] == [1.5e9, 3.5e9]
    assert tg["samples_read_bytes"] == [2.5e9, 4.5e9]  # the tests took turns
    ideals = [tg["gen_bytes"] / 2.5, tg["gen_bytes"] / 4.5]
    assert tg["ideal_ns"] == pytest.approx(sum(ideals) / 2)
    shares = [ideal / ns for ideal, ns in zip(ideals, tg["samples_ns"], strict=True)]
    assert tg["share_of_peak"] == pytest.approx(sum(shares) / 2)
    assert pp["model_hash"] == tg["model_hash"] and len(pp["model_hash"]) == 64
    assert pp["steady"] is None and pp["warmed"] in (True, False)
    assert "batched" not in report and "end_to_end" not in report
    (phases,) = report["phases"]
    assert len(phases["decode_samples_s"]) == len(phases["sample_samples_s"]) == 2
    assert [t["graph"] for t in report["ops"]] == ["decode", "prompt of 6"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, Aborted("broken off")])
def test_an_interrupt_leaves_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    path, left = unpack("llama-dense", tmp_path), [100] * 3
    real = Runner.repeat

    def repeat(self: Runner) -> None:
        if not left:
            raise error
        left.pop()
        real(self)

    monkeypatch.setattr(Runner, "repeat", repeat)
    cases = [Case(n_prompt=6, n_gen=0), Case(n_prompt=0, n_gen=3)]
    job = Job(models=[path, path], cases=cases, warm_up=False, phases=True, roofline=False)
    report = bench(job)
    assert [len(test["samples_ns"]) for test in report["tests"]] == [2, 1]
    assert report["interrupted"] and "phases" not in report
    with pytest.raises(KeyboardInterrupt):
        bench(job)


@pytest.mark.parametrize("spec", ["smollm2-135m/1:Q4_1", "gemma-3-270m/1:Q8_0"])
def test_a_synthetic_model_computes(spec: str) -> None:
    with (
        Engine.of_files(make_files(parse_spec(spec)), PlaceFlags()) as engine,
        engine.context(n_ctx=16) as ctx,
    ):
        logits = ctx.decode([1, 2, 3])
        assert logits.shape == (1, engine.hparams.n_vocab)
        assert np.isfinite(logits).all() and 0.1 < logits.std() < 10
