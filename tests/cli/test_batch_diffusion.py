"""`llamapy batch` with diffusion models: each line as `run` answers it, kept and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import speaking_model

from llamapy import Model
from llamapy.app.batch.job import Job, Totals
from llamapy.app.batch.lines import read_items
from llamapy.app.generate import Settings
from llamapy.cli.main import main
from llamapy.sample import SamplerParams

LINES = [
    {"id": "a", "prompt": "the end of the affair", "n": 12},
    {"id": "b", "prompt": "an", "n": 21, "temperature": 1.5, "seed": 4},
    {"id": "c", "prompt": "in the", "n": 16, "stop": ["I"], "temperature": 0.7},
    {"id": "d", "prompt": "the end of the affair of the end", "n": 0},
    {"id": "e", "prompt": "er"},
    {"id": "f", "prompt": "the end", "n": 9, "temperature": 1.0, "seed": 9},
]
HOW = [
    [],
    ["--diffusion-algorithm", "entropy", "--diffusion-block-length", "5"],
    ["--diffusion-algorithm", "random"],
    ["--diffusion-algorithm", "0", "--diffusion-eps", "0.2"],
]
STEPS = ["--diffusion-steps", "6", "-t", "1", "-s", "11"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("diffusion")
    archs = ("dream", "llada")
    return {name: str(speaking_model.write(folder / f"{name}.gguf", name)) for name in archs}


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return str(path)


def alone(model: str, line: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    temp, seed = line.get("temperature", 0.0), line.get("seed", 11)
    args = ["run", "-m", model, "-p", line["prompt"], "--temp", str(temp), "--json"]
    stops = [word for stop in line.get("stop", []) for word in ("--stop", stop)]
    args += ["-n", str(line.get("n", -1)), *line["how"], *STEPS[:4], "-s", str(seed), *stops]
    assert main(args) == 0
    found = json.loads(capfd.readouterr().out)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("arch", ["dream", "llada"])
def test_every_answer_is_that_of_a_run(
    arch: str, how: list[str], models: dict[str, str], source: str, capfd: Any
) -> None:
    assert main(["batch", source, "-m", models[arch], *how, *STEPS, "-ub", "16"]) == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [r["id"] for r in records] == [line["id"] for line in LINES]
    for line, record in zip(LINES, records, strict=True):
        want = alone(models[arch], {**line, "how": how}, capfd)
        for field in ("text", "ids", "finish_reason", "stop"):
            assert record[field] == want[field], (line, field)
        by_chance = "temperature" in line or how[1:2] in (["random"], ["0"])
        assert record["seed"] == (want["seed"] if by_chance else None)
        assert record["counts"] == {k: want["counts"][k] for k in ("prompt", "generated")}
    assert len({r["text"] for r in records}) == 6 and len(records[4]["ids"]) > 20


def test_it_is_gone_on_with(
    models: dict[str, str], source: str, tmp_path: Path, capfd: Any
) -> None:
    def batch(out: str, *more: str) -> int:
        return main(["batch", source, "-o", str(tmp_path / out), "-m", models["dream"], *more])

    assert batch("whole", *STEPS) == 0
    whole = (tmp_path / "whole").read_bytes()
    assert batch("part", *STEPS) == 0
    for size in (0, 10, len(whole) // 2, len(whole) - 3):
        (tmp_path / "part").write_bytes(whole[:size])
        assert batch("part", *STEPS, "--json") == 0
        found = json.loads(capfd.readouterr().out)
        assert found["kept"] == whole[:size].count(b"\n") and found["kept"] + found["done"] == 6
        assert (tmp_path / "part").read_bytes() == whole
    assert batch("part", "--diffusion-steps", "7", *STEPS[2:]) == 2
    assert "was begun with params diffusion" in capfd.readouterr().err


def test_ctrl_c_between_steps(models: dict[str, str]) -> None:
    """What is finished has been put, and the answer under way has not."""
    with Model.open(models["llada"]) as model:
        s = Settings(sampling=SamplerParams(temp=0.0), n_threads=1)
        asked = "".join(json.dumps(line) + "\n" for line in LINES[:2]).encode()
        records: list[dict[str, Any]] = []
        totals, told = Totals(2), list[int]()
        job = Job(model, read_items(asked, s), 1, lambda _, record: records.append(record), totals)
        job.run(
            s,
            4,
            interrupted=lambda: len(records) == 1 and len(told) > 140,
            tell=lambda t: told.append(t.n_prompt + t.n_generated),
        )
        assert [r["id"] for r in records] == ["a"] and len(told) == 141
        n = records[0]["counts"]
        assert told[127:129] == [n["prompt"], n["prompt"] + n["generated"]]
        assert (totals.n_done, totals.left_lines) == (1, 1)


def test_a_model_without_a_mask(models: dict[str, str], tmp_path: Path, capfd: Any) -> None:
    raw = Path(models["dream"]).read_bytes()
    path = tmp_path / "m.gguf"
    path.write_bytes(raw.replace(b"mask_token_id", b"what_token_id"))
    source = tmp_path / "in"
    source.write_text('{"prompt": "a"}\n')
    assert main(["batch", str(source), "-m", str(path)]) == 2
    out, err = capfd.readouterr()
    assert out == "" and "names no mask token" in err and err.count("\n") == 1
