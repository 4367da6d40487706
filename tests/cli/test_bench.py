"""`llamapy bench` as a command: every format parses, stdout holds the answer alone."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

import pytest
from reference import unpack

from llamapy.app.bench.params import Case
from llamapy.app.bench.report import render
from llamapy.base.errors import MemoryBudgetError
from llamapy.cli.main import main

SMALL = ["-p", "4", "-n", "2", "-r", "2", "-t", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(unpack("llama-dense", tmp_path_factory.mktemp("bench")))


def out_of(args: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert main(["bench", *args]) == 0
    out, err = capfd.readouterr()
    assert err == "" and "\x1b" not in out
    return out


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_the_table(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = out_of(["-m", model, *SMALL, "-pg", "3,2", "-d", "0,5"], capfd)
    head, rule, *rows = [line for line in out.splitlines() if line.startswith("|")]
    columns = ["model", "size", "params", "backend", "threads", "test"]
    assert cells(head) == [*columns, "t/s", "median", "MAD", "best"]
    assert len({len(line) for line in (head, rule, *rows)}) == 1
    tests = ["pp4", "tg2", "pp3+tg2"]
    assert [cells(row)[5] for row in rows] == tests + [f"{t} @ d5" for t in tests]
    mean, spread = cells(rows[0])[6].split(" ± ")
    assert float(mean) > 0 and float(spread) >= 0 and float(cells(rows[0])[7]) > 0
    assert out.splitlines()[-1].startswith("build: llamapy ")


def test_settings_show_when_they_vary(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    args = ["-m", model, "-p", "8", "-n", "0", "-r", "1", "-t", "1,2", "-ub", "4-8*2"]
    out = out_of([*args, "-ctk", "f32"], capfd)
    head, _, *rows = [line for line in out.splitlines() if line.startswith("|")]
    assert cells(head)[4:8] == ["threads", "n_ubatch", "type_k", "test"]
    found = [tuple(cells(row)[4:7]) for row in rows]
    assert found == [("1", "4", "f32"), ("2", "4", "f32"), ("1", "8", "f32"), ("2", "8", "f32")]


def test_everything_in_a_table(
    model: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llamapy.app.bench.roofline.LOOK_S", 0.05)
    out = out_of(["-m", model, *SMALL, "--roofline", "--phases", "--ops"], capfd)
    assert "of peak" in out and "prefill/token" in out and "roofline: 1 threads read" in out
    assert "decode: " in out and "prompt of 4: " in out and "mul_mat-f32-f32" in out


def test_json(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    for flag in (["--json"], ["-o", "json"]):
        report = json.loads(out_of(["-m", model, *SMALL, *flag], capfd))
        assert report["schema_version"] == 2
        assert report["conditions"]["load_average"] and "cpu" in report["conditions"]
        assert [t["test"] for t in report["tests"]] == ["pp4", "tg2"]
        test = report["tests"][0]
        assert len(test["samples_ts"]) == 2 and test["n_threads"] == 1
        assert {"avg_ts", "stddev_ts", "median_ts", "mad_ts", "min_ns", "load_s"} <= test.keys()
        assert "phases" not in report and "roofline" not in report


def test_json_lines(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = out_of(["-m", model, *SMALL, "-o", "jsonl", "--ops"], capfd)
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["kind"] for line in lines] == ["test", "test", "ops", "ops"]
    assert all(line["schema_version"] == 2 and line["conditions"] for line in lines)


def test_csv(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = out_of(["-m", model, "-m", model, *SMALL, "-o", "csv"], capfd)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["test"] for row in rows] == ["pp4", "tg2"] * 2
    assert float(rows[0]["avg_ts"]) > 0 and rows[0]["model_filename"] == model


def test_sql_goes_into_a_database(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    out = out_of(["-m", model, *SMALL, "-npl", "2", "-npp", "3", "-ntg", "2", "-o", "sql"], capfd)
    db = sqlite3.connect(":memory:")
    db.executescript(out + out)  # the second time into the same table
    got = db.execute("SELECT kind, test, typeof(avg_ts), n_parallel, isa FROM llamapy_bench")
    report = json.loads(out_of(["-m", model, *SMALL, "--json"], capfd))
    isa = report["conditions"]["isa"]
    one = [("test", "pp4", "real", None, isa), ("test", "tg2", "real", None, isa)]
    one += [("batched", "pp3+tg2 x2", "null", 2, isa)]
    assert got.fetchall() == one * 2
    (path,) = db.execute("SELECT DISTINCT model_filename FROM llamapy_bench").fetchone()
    assert path == model


def test_quotes_in_sql() -> None:
    report = {"comparisons": [{"test": 'it\'s "x"; --', "ok": True, "of": {"a": 1.5, "b": None}}]}
    db = sqlite3.connect(":memory:")
    db.executescript(render(report, "sql"))
    got = db.execute('SELECT test, ok, of_a, of_b FROM "llamapy_bench"').fetchall()
    assert got == [('it\'s "x"; --', 1, 1.5, None)]


def test_batched(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    args = ["-m", model, "-npp", "3,5", "-ntg", "2", "-npl", "1-4*2", "-r", "1"]
    out = out_of([*args, "-t", "1"], capfd)
    head, _, *rows = [line for line in out.splitlines() if line.startswith("|")]
    names = "PP TG B N_KV T_PP_s S_PP_t/s T_TG_s S_TG_t/s T_s S_t/s"
    assert cells(head) == [
        name.replace("_s", " s").replace("_t/s", " t/s") for name in names.split()
    ]
    found = [tuple(map(int, cells(row)[:4])) for row in rows]
    assert found == [(p, 2, b, b * (p + 2)) for p in (3, 5) for b in (1, 2, 4)]
    report = json.loads(out_of([*args, "-pps", "-t", "1,2", "--json"], capfd))
    assert report["tests"] == [] and len(report["batched"]) == 2 * 6
    assert {row["n_kv"] for row in report["batched"]} == {
        p + b * 2 for p in (3, 5) for b in (1, 2, 4)
    }
    assert all(row["shared"] and row["prompt_median_ts"] > 0 for row in report["batched"])
    assert not any(row["separate"] for row in report["batched"])
    report = json.loads(out_of([*args[:2], "-tgs", "-npp", "2", "-ntg", "2", "--json"], capfd))
    assert [row["separate"] for row in report["batched"]] == [True] and not report["tests"]


def test_models_are_opened_in_every_way(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    args = ["-m", model, "-p", "4", "-n", "0", "-r", "1", "-t", "1"]
    out = out_of([*args, "-lm", "mmap,read", "--repack", "off,on"], capfd)
    head, _, *rows = [line for line in out.splitlines() if line.startswith("|")]
    assert cells(head)[5:7] == ["load_mode", "repack"]
    ways = [tuple(cells(row)[5:7]) for row in rows]
    assert ways == [("mmap", "off"), ("mmap", "on"), ("read", "off"), ("read", "on")]


def test_synthetic(capfd: pytest.CaptureFixture[str]) -> None:
    args = ["--synthetic", "smollm2-135m/1:Q8_0", "-p", "2", "-n", "1", "-r", "1", "--json"]
    args += ["-lm", "read"]
    report = json.loads(out_of([*args, "--phases"], capfd))
    test = report["tests"][0]
    assert test["synthetic"] and test["model_filename"] == "smollm2-135m/1:Q8_0"
    layer = 576 * 576 * 2 + 576 * 192 * 2 + 3 * 576 * 1536
    assert test["model_n_params"] == layer + 49152 * 576 + 3 * 576
    (phases,) = report["phases"]
    assert phases["detokenise_s"] is None and phases["sample_s"] > 0


def test_without_memory_for_interleaved_weights(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object) -> bool:
        raise MemoryBudgetError("none left")

    monkeypatch.setattr("llamapy.loader.repack._make_twins", none_left)
    args = ["bench", "--synthetic", "smollm2-135m/1:Q8_0", "-p", "2", "-n", "1", "-r", "1"]
    assert main([*args, "--repack", "on", "--json"]) == 5
    out, err = capfd.readouterr()
    assert out == "" and json.loads(err)["error"]["message"].startswith("--repack on: no memory")
    assert main([*args, "--repack", "auto", "--json"]) == 0
    out, err = capfd.readouterr()
    repack = json.loads(out)["tests"][0]["repack"]
    assert not repack["done"] and repack["why_not"].startswith("no memory for ")
    assert json.loads(err)["warning"]["code"] == "W09"


def test_a_test_that_was_disturbed_is_named() -> None:
    """By its samples: a median absolute deviation of more than a twentieth of the median."""
    c = {"cpu": "X", "isa": "avx2", "cpus_allowed": 2, "cgroup_quota_cpus": 1.5}
    c |= {"load_average": [3.0, 2.0, 1.0], "throttled_us": 2000, "llamapy": "1"}
    c |= {"load_average_after": [2.5, 2.0, 1.0], "governor": "powersave"}
    test = {"model_type": "m", "model_size": 3 << 30, "model_n_params": 2_500_000_000}
    test |= {"backends": "CPU", "avg_ts": 2.0, "stddev_ts": 0.5, "median_ts": 2.0, "mad_ts": 0.4}
    test |= {"max_ts": 2.5, "share_of_peak": None, "steady": False, "warmed": True}
    test |= asdict(Case(n_prompt=7, n_gen=0)) | {"test": "pp7"}
    good = {**test, "test": "pp8", "steady": True}
    cold, once = {**good, "test": "pp9", "warmed": False}, {**good, "test": "pp1", "steady": None}
    text = render({"tests": [test, good, cold, once], "conditions": c}, "md")
    assert "not steady (MAD above 5% of the median): pp7\n" in text
    assert "(its last two runs differ by more than 5%): pp9\n" in text
    assert "not known to be steady (fewer than 3 repetitions): pp1\n" in text
    machine = "machine: X, avx2, 2 CPUs allowed, quota 1.5 CPUs, governor powersave, "
    assert machine + "load 3.00 to 2.50, throttled for 2 ms\n" in text
    text_of_good = render({"tests": [good], "conditions": c}, "md")
    assert "\nconverged: warm-ups within 5%, MAD at most 5% of the median\n" in text_of_good
    row = cells(text.splitlines()[2])
    assert row[1:3] == ["3.00 GiB", "2.50 B"] and row[6:] == [
        "2.00 ± 0.50",
        "2.00",
        "0.40",
        "2.50",
        "?",
    ]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-p", "x"], "-p 'x': expected a number"),
        (["-p", "0", "-n", "0"], "nothing to run"),
        (["-o", "xml"], "-o xml: must be one of md, csv, json, jsonl, sql"),
        (["-lm", "mmap,tape"], "-lm 'tape': must be one of mmap, read"),
        (["--repack", "maybe"], "--repack 'maybe': must be one of auto, on, off"),
        (["-npl", "0"], "-npl 0: must be at least 1"),
        (["-npl", "2", "--ops"], "--ops are about tests of -p and -n"),
        (["--end-to-end", "-p", "0"], "--end-to-end: a whole run has a prompt and generates"),
        (["--end-to-end", "--synthetic", "smollm2-135m/1:Q8_0"], "--end-to-end needs a file (-m)"),
        (["-ctk", "q9_9"], "-ctk 'q9_9': must be one of f32, f16"),
        (["--synthetic", "llama-1b"], "expected SHAPE"),
        (["-t", "0"], "-t 0: must be at least 1"),
        (["-r", "0"], "--repetitions"),
    ],
)
def test_usage(args: list[str], says: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *args]) == 2
    out, err = capfd.readouterr()
    assert out == "" and says in err


def test_a_file_that_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "-m", str(tmp_path / "no.gguf")]) == 3
    assert "no.gguf" in capfd.readouterr().err


def test_csv_holds_tests_alone(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "-m", model, *SMALL, "-o", "csv", "--ops"]) == 0
    out, err = capfd.readouterr()
    assert len(out.splitlines()) == 3 and "W10" in err
