"""Families of models against passes from their papers: the reference logits, then the engine.

The passes (tests/papers) share no line with the engine: they read the file with the `gguf` package
and compute in float64, so what both agree on is what the paper says.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import random_hybrid
import random_rwkv6
import random_rwkv7
from papers.weights import Weights
from reference import GELU, logits, nmse, unpack

from llamapy import Model
from llamapy.models.registry import known
from llamapy.runtime.batch import join, single

REFERENCE = [
    "llama-dense", "gemma3-dense", "phi3-dense", "gpt2-dense", "qwen3moe-moe", "deepseek2-moe",
    "mamba2-dense", "qwen3next-moe", "lfm2-dense",
]  # fmt: skip
RANDOM = {
    "rwkv6": random_rwkv6.write,
    "rwkv7": random_rwkv7.write,
    "jamba": random_hybrid.jamba,
    "nemotron_h_moe": random_hybrid.nemotron_h_moe,
}
UNREAD = {"rwkv7": [f"blk.0.time_mix_v{i}.weight" for i in range(3)]}
TOKENS = logits()["tokens"].tolist()
ENGINE = 1e-10  # float32 against float64: what rounding costs, and no more


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, np.ndarray]]:
    """A model's file and its logits by the paper, each worked out once."""
    folder = tmp_path_factory.mktemp("papers")
    done: dict[str, tuple[Path, np.ndarray]] = {}

    def get(name: str) -> tuple[Path, np.ndarray]:
        if name not in done:
            path = RANDOM[name](folder / f"{name}.gguf") if name in RANDOM else unpack(name, folder)
            file = Weights(path)
            forward = importlib.import_module(f"papers.{file.arch}").forward
            done[name] = path, forward(file, TOKENS)
        return done[name]

    return get


@pytest.mark.parametrize("name", REFERENCE)
def test_the_paper_gives_the_reference_logits(paper, name):
    _, ours = paper(name)
    assert nmse(ours, logits()[name]) <= (1e-6 if name in GELU else 1e-8)


@pytest.mark.parametrize("name", [*REFERENCE, *RANDOM])
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
    assert np.array_equal(steps, whole)


@pytest.mark.parametrize("arch", RANDOM)
def test_a_random_model_shows_every_part(tmp_path, arch):
    """Each tensor moves the logits (but layer 0's value residual), so an engine that drops one is
    caught."""
    file = Weights(RANDOM[arch](tmp_path / f"{arch}.gguf"))
    forward = importlib.import_module(f"papers.{arch}").forward
    want = forward(file, TOKENS[:8])
    random, still = np.random.default_rng(1), []
    for name, values in list(file.tensors.items()):
        chooses = name.endswith("exp_probs_b.bias")  # a little more of it moves no choice
        spread = 0.0 if chooses else 0.1 * values.std()
        file.tensors[name] = values * (not chooses) + random.normal(0, spread, values.shape)
        if nmse(forward(file, TOKENS[:8]), want) < 1e-6:
            still.append(name)
        file.tensors[name] = values
    assert still == UNREAD.get(arch, [])


@pytest.mark.parametrize("arch", RANDOM)
def test_a_random_model_keeps_its_bits(tmp_path, arch, monkeypatch):
    """Whatever threads, cuts, instruction set or batch mates."""
    with Model.open(RANDOM[arch](tmp_path / f"{arch}.gguf")) as model:
        with model.context(n_ctx=256, n_threads=1) as ctx:
            want = ctx.decode(TOKENS, logits="all")
        with model.context(n_ctx=512, n_threads=3, n_ubatch=7, n_seq_max=2) as ctx:
            ctx.decode(TOKENS[:9], seq_id=1, logits="none")
            parts = [single(TOKENS[9:], 9, 1, "all"), single(TOKENS, 0, 0, "all")]
            got = ctx.decode_batch(join(parts))
        monkeypatch.setenv("LLAMAPY_ISA", "scalar")
        with model.context(n_ctx=256, n_threads=1) as ctx:
            scalar = ctx.decode(TOKENS, logits="all")
    assert np.array_equal(got, np.concatenate([want[9:], want]))
    assert np.array_equal(scalar, want)
