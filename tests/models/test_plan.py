"""`llamapy plan`: the sizes of a run without the run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf_writer
import pytest
import random_encoders
import random_t5
from reference import unpack

from llamapy import Model
from llamapy.app import plan as app
from llamapy.app.bench.shapes import Shape, Spec
from llamapy.app.bench.synthetic import make_files
from llamapy.app.plan import PlanSettings, plan
from llamapy.base.errors import FileError, MemoryBudgetError, UsageError
from llamapy.cli.main import main
from llamapy.loader.place_flags import PlaceFlags
from llamapy.loader.splits import ModelFiles

SMALL = Shape(n_layer=2, n_embd=256, n_ff=512, n_head=4, n_head_kv=2, n_embd_head=64, n_vocab=3200)


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return unpack("llama-dense", tmp_path)


@pytest.fixture(scope="module")
def quantised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """As much of it as a plan reads: no weight is there."""
    path = tmp_path_factory.mktemp("plan") / "q.gguf"
    with make_files(Spec("small", SMALL, "Q4_0")) as files:
        path.write_bytes(files.shards[0].view)
        yield path


def row(path: Path, **settings: Any) -> dict[str, Any]:
    (found,) = plan(path, PlanSettings(n_threads=2, **settings), PlaceFlags())["devices"]
    return found


def test_the_sizes_are_those_of_a_run(quantised: Path) -> None:
    sizes = {"n_ctx": 1024, "n_ubatch": 128, "type_k": "q8_0"}
    planned = row(quantised, **sizes)
    with (
        Model.open(quantised, repack="on") as model,
        model.context(n_threads=2, **sizes) as ctx,
    ):
        opened = ctx.buffer_bytes()
        assert planned["cache_bytes"] == opened["kv"]
        assert planned["compute_bytes"] == opened["CPU"]
        assert planned["in_place_bytes"] == model.weights.mapped_bytes
        assert planned["interleaved_bytes"] == model.repacked.n_bytes > 0
        assert planned["output_bytes"] == 4 * model.hparams.n_vocab
        ctx.decode(range(128))
        assert planned["scratch_bytes"] >= len(ctx._pool._scratch) - 64 > 0
    parts = sum(planned[f"{part}_bytes"] for part in app.PARTS)
    assert planned["peak_bytes"] == parts
    assert planned["needs_bytes"] == parts - planned["interleaved_bytes"]


def test_what_settings_do(quantised: Path) -> None:
    first = row(quantised)
    read = row(quantised, load_mode="read", repack="off")
    assert (read["in_place_bytes"], read["copied_bytes"]) == (0, first["in_place_bytes"])
    assert read["interleaved_bytes"] == 0 and read["needs_bytes"] == read["peak_bytes"]
    made = row(quantised, repack="on")
    assert made["needs_bytes"] == made["peak_bytes"] < first["peak_bytes"]
    with Model.open(quantised, repack="on") as model:  # nothing but the embedding is read then
        left = model.weights.in_place_bytes(model.gguf)
        assert made["in_place_bytes"] == left and left < first["in_place_bytes"]
    several = row(quantised, repack="on", n_ctx=256)
    weights = first["in_place_bytes"] + made["interleaved_bytes"]
    assert several["peak_bytes"] > weights + app.PROGRAM_BYTES
    several = row(quantised, n_parallel=4)
    assert several["output_bytes"] == 4 * first["output_bytes"]
    all_rows = row(quantised, n_outputs=512)
    assert all_rows["compute_bytes"] > first["compute_bytes"]
    assert all_rows["cache_bytes"] == first["cache_bytes"]


def test_only_the_header_is_read(quantised: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object) -> None:
        raise AssertionError("weights are asked for")

    monkeypatch.setattr(ModelFiles, "prefetch", no)
    monkeypatch.setattr(ModelFiles, "data", no)
    assert plan(quantised, PlanSettings(), PlaceFlags())["fits"]


def test_the_largest_context_is_the_largest(dense: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = plan(dense, PlanSettings(n_ctx=8192), PlaceFlags())
    need = whole["devices"][0]["needs_bytes"]
    monkeypatch.setattr(app, "_available", lambda: need - 300_000)
    found = plan(dense, PlanSettings(n_ctx=8192), PlaceFlags())
    n = found["largest_ctx"]
    assert not found["fits"] and n % 256 == 0 and 256 <= n < 8192
    assert plan(dense, PlanSettings(n_ctx=n), PlaceFlags())["fits"]
    assert not plan(dense, PlanSettings(n_ctx=n + 256), PlaceFlags())["fits"]
    monkeypatch.setattr(app, "_available", lambda: 1000)
    assert plan(dense, PlanSettings(), PlaceFlags())["largest_ctx"] is None
    monkeypatch.setattr(app, "_available", lambda: None)
    found = plan(dense, PlanSettings(), PlaceFlags())
    assert found["fits"] and found["largest_ctx"] is None


def test_the_flags_ask_for_the_same(dense: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = ["plan", str(dense), "-c", "300", "-ctv", "q8_0", "-np", "3", "-t", "1", "--json"]
    assert main(first) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["plan", *shlex.split(app.command_line(found)), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for each in (found, again):  # the machine is another one by now
        each["devices"][0].pop("available_bytes")
    assert again == found and found["params"]["type_v"] == "q8_0"


def test_the_exit_code_says_whether_it_fits(
    dense: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["plan", "-m", str(dense)]) == 0
    text = capsys.readouterr().out
    assert "fits         yes" in text and "\x1b" not in text
    monkeypatch.setattr(app, "_available", lambda: 1 << 20)
    assert main(["plan", "-m", str(dense)]) == 5
    out, err = capsys.readouterr()
    assert "fits         no" in out and "largest      none" in out
    assert "does not fit: " in err and "1.0 MiB are available; no context does" in err
    assert len(err.splitlines()) == 1
    assert main(["plan", "-m", str(dense), "--overcommit"]) == 0


def test_what_is_refused(tmp_path: Path, dense: Path) -> None:
    with pytest.raises(UsageError, match="type_k"):
        plan(dense, PlanSettings(type_k="q9"), PlaceFlags())
    with pytest.raises(MemoryBudgetError, match="n_ctx must be at most"):
        plan(dense, PlanSettings(n_ctx=1 << 40), PlaceFlags())
    path = gguf_writer.small().save(tmp_path / "m.gguf")
    whole = path.read_bytes()
    for n in (0, 3, 20, 700, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(FileError):
            plan(path, PlanSettings(), PlaceFlags())
    with pytest.raises(UsageError, match="no such device"):
        plan(dense, PlanSettings(), replace(PlaceFlags(), n_gpu_layers=1, devices=("GPU",)))
    assert main(["plan", str(dense), "-m", str(dense)]) == 2


# Windows, latent attention, experts and sinks, states, states beside attention, token n-grams.
KINDS = [
    "gemma3-dense",
    "deepseek2-moe",
    "gpt-oss-moe",
    "mamba-dense",
    "jamba-dense",
    "qwen4exp-moe",
]


@pytest.mark.parametrize("name", [*KINDS, "t5", "bert"])
def test_every_kind_of_memory(name: str, tmp_path: Path) -> None:
    if name == "t5":
        path = random_t5.write(tmp_path / "m.gguf", name)
    elif name == "bert":
        path = random_encoders.write(tmp_path / "m.gguf", name, pooling="cls")
    else:
        path = unpack(name, tmp_path)
    planned = row(path, n_ctx=512, n_parallel=3, repack="off")
    with (
        Model.open(path, repack="off") as model,
        model.context(n_ctx=512, n_seq_max=3, n_threads=2) as ctx,
    ):
        opened = ctx.buffer_bytes()
        assert (planned["cache_bytes"], planned["compute_bytes"]) == (opened["kv"], opened["CPU"])
        assert planned["in_place_bytes"] + planned["copied_bytes"] == model.weights.n_bytes
