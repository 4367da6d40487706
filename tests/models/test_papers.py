"""Ten families against passes written from their papers: the reference logits, then the engine.

The passes (tests/papers) share no line with the engine: they read the file with the `gguf` package
and compute in float64, so what both agree on is what the paper says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import random_rwkv7
from papers.weights import Weights
from reference import GELU, logits, nmse, unpack

from llamapy import Model
from llamapy.models.registry import known

REFERENCE = [
    "llama-dense", "gemma3-dense", "phi3-dense", "gpt2-dense", "qwen3moe-moe", "deepseek2-moe",
    "mamba2-dense", "qwen3next-moe", "lfm2-dense",
]  # fmt: skip
TOKENS = logits()["tokens"].tolist()
ENGINE = 1e-10  # float32 against float64: what rounding costs, and no more


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, np.ndarray]]:
    """A model's file and its logits by the paper, each worked out once."""
    folder = tmp_path_factory.mktemp("papers")
    done: dict[str, tuple[Path, np.ndarray]] = {}

    def get(name: str) -> tuple[Path, np.ndarray]:
        if name not in done:
            if name == "rwkv7":
                path = random_rwkv7.write(folder / "rwkv7.gguf")
            else:
                path = unpack(name, folder)
            file = Weights(path)
            forward = importlib.import_module(f"papers.{file.arch}").forward
            done[name] = path, forward(file, TOKENS)
        return done[name]

    return get


@pytest.mark.parametrize("name", REFERENCE)
def test_the_paper_gives_the_reference_logits(paper, name):
    _, ours = paper(name)
    assert nmse(ours, logits()[name]) <= (1e-6 if name in GELU else 1e-8)


@pytest.mark.parametrize("name", [*REFERENCE, "rwkv7"])
def test_the_engine_computes_what_the_paper_says(paper, name):
    arch = name.rsplit("-", 1)[0]
    if arch not in known():
        pytest.skip(f"llamapy does not run {arch} yet")
    path, want = paper(name)
    exact = {"n_ctx": 256, "type_k": "f32", "type_v": "f32", "n_threads": 1}
    with Model.open(path) as model, model.context(**exact) as ctx:
        whole = ctx.decode(TOKENS, logits="all")
        ctx.clear()
        steps = np.concatenate([ctx.decode([t]) for t in TOKENS])
    assert nmse(whole, want) <= ENGINE
    assert nmse(steps, want) <= ENGINE


def test_the_random_rwkv7_shows_every_part(tmp_path):
    """Each tensor but layer 0's value residual moves the logits, so an engine that drops one is
    caught."""
    file = Weights(random_rwkv7.write(tmp_path / "rwkv7.gguf"))
    forward = importlib.import_module("papers.rwkv7").forward
    want = forward(file, TOKENS[:8])
    random, still = np.random.default_rng(1), []
    for name, values in list(file.tensors.items()):
        file.tensors[name] = values + random.normal(0, 0.1 * values.std(), values.shape)
        if nmse(forward(file, TOKENS[:8]), want) < 1e-6:
            still.append(name)
        file.tensors[name] = values
    assert still == [f"blk.0.time_mix_v{i}.weight" for i in range(3)]
