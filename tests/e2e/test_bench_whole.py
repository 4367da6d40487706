"""`llamapy bench --end-to-end` on the real demo model: the parts of a run make up the whole."""

from __future__ import annotations

import json

import pytest

from llamapy.app.bench.params import Case
from llamapy.app.bench.whole import PARTS, WholeJob, WholeSamples, prompt_of
from llamapy.base.errors import LlamapyError
from llamapy.base.paths import DEMO, find_model
from llamapy.cli.main import main


@pytest.fixture(scope="module")
def demo() -> str:
    path = find_model(DEMO)
    if path is None:
        pytest.skip("the demo model is not there: llamapy pull demo")
    return str(path)


def test_whole_runs(demo: str, capfd: pytest.CaptureFixture[str]) -> None:
    args = ["bench", "-m", demo, "--end-to-end", "-p", "7", "-n", "3", "-r", "2", "-t", "2"]
    assert main([*args, "--json", "--no-warmup"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["tests"] == []
    (row,) = report["end_to_end"]
    assert row["test"] == "run pp7+tg3" and 7 <= row["n_prompt"] <= 9 and row["n_gen"] == 3
    assert row["warmed"] is None and row["steady"] is None
    for i, whole in enumerate(row["samples_ns"]):
        parts = [row[f"{name}_samples_ns"][i] for name in PARTS]
        assert sum(parts) == whole and min(parts) > 0
        assert row["first_samples_ns"][i] == sum(parts[:3])
    assert len(row["samples_ns"]) == 2


def test_a_run_that_fails_says_why(demo: str) -> None:
    words = ["sh", "-c", "echo what; echo why >&2; exit 3"]
    with pytest.raises(LlamapyError, match="a run ended with 3: why"):
        WholeJob(Case(n_prompt=1, n_gen=1), words, b"").run(WholeSamples(Case(n_prompt=1, n_gen=1)))


class Words:
    """A tokenizer with a token per word, and one before all."""

    def encode(self, text: str) -> list[int]:
        return [0, *range(len(text.split()))]


@pytest.mark.parametrize("n", [1, 2, 3, 40, 1000])
def test_a_prompt_of_so_many_tokens(n: int) -> None:
    text = prompt_of(Words(), n)
    assert len(text.split()) == max(n - 1, 1) and not text.endswith(" ")
