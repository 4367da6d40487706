"""The two real models against the dequantised truth, and the promise of one answer."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from llamapy import Model
from llamapy.base import paths

REFERENCE = Path(
    os.environ.get("LLAMAPY_REFERENCE", Path(__file__).parents[3] / "shared" / "reference")
)
FILES = {"smollm2": "demo", "gemma3": "gemma3-270m"}


def model_path(name: str) -> Path:
    path = paths.find_model(paths.KNOWN[FILES[name]])
    if path is None:
        pytest.skip(f"the model is not there: llamapy pull {FILES[name]}")
    return path


def truth(name: str) -> dict[str, np.ndarray]:
    path = REFERENCE / "models" / f"{name}-truth.npz"
    if not path.exists():
        pytest.skip(f"no reference figures at {path}; set LLAMAPY_REFERENCE")
    with np.load(path) as z:
        return {k: z[k] for k in z.files}


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def losses(name: str, **params) -> dict[str, float]:
    """KL of the 128 most likely ids plus the rest as one, and top-1 agreement, over 256 tokens."""
    t = truth(name)
    with Model.open(model_path(name)) as model, model.context(n_ctx=256, **params) as ctx:
        got = log_softmax(ctx.decode(t["tokens"], logits="all"))
    ids, p = t["top_ids"], np.exp(t["top_logprobs"].astype(np.float64))
    q = np.take_along_axis(got, ids, axis=1)
    kl = (p * (t["top_logprobs"] - q)).sum(axis=1)
    rest_p, rest_q = 1 - p.sum(axis=1), 1 - np.exp(q).sum(axis=1)
    ok = (rest_p > 1e-12) & (rest_q > 1e-12)
    kl[ok] += rest_p[ok] * np.log(rest_p[ok] / rest_q[ok])
    top1 = (got.argmax(axis=1) == ids[:, 0]).mean()
    return {"kl_mean": kl.mean(), "kl_max": kl.max(), "top1": top1}


@pytest.mark.parametrize("name", list(FILES))
def test_no_more_is_lost_than_the_peer_loses(name):
    got, t = losses(name), truth(name)
    assert got["kl_mean"] <= t["peer_kl_mean"]
    assert got["kl_max"] <= t["peer_kl_max"]
    assert got["top1"] >= t["peer_top1"]


@pytest.mark.parametrize("name", list(FILES))
def test_a_cache_in_q8_0_costs_little(name):
    more = losses(name, type_k="q8_0", type_v="q8_0")["kl_mean"] - losses(name)["kl_mean"]
    assert more < 0.002


@pytest.mark.parametrize("name", list(FILES))
def test_greedy_text_agrees_with_the_truth_as_often_as_the_peer(name):
    path = REFERENCE / "models" / "greedy.json"
    if not path.exists():
        pytest.skip(f"no reference figures at {path}; set LLAMAPY_REFERENCE")
    rows = json.loads(path.read_text())[name]
    ours = peer = 0
    with Model.open(model_path(name)) as model:
        for row in rows:
            text = greedy(model, row["prompt"], 40)
            want = row["truth_f32"].replace(" [end of text]", "").rstrip("\n")
            ours += text.rstrip("\n") == want
            peer += row["peer"].replace(" [end of text]", "").rstrip("\n") == want
    assert ours >= peer


def greedy(model: Model, prompt: str, n: int) -> str:
    tok = model.tokenizer
    ids = tok.encode(prompt, add_special=True)
    out: list[int] = []
    with model.context(n_ctx=len(ids) + n) as ctx:
        logits = ctx.decode(ids)
        for _ in range(n):
            best = int(logits[-1].argmax())
            if best in tok.eog:
                break
            out.append(best)
            logits = ctx.decode([best])
    return tok.decode(out).decode("utf-8", "replace")


VARIANTS = [{"n_threads": t} for t in (2, 3, 4)] + [{"n_ubatch": u} for u in (1, 7, 64)]


@pytest.mark.parametrize("name", list(FILES))
def test_one_answer(name, monkeypatch):
    """Logits are the same bits for any thread count, ubatch size and instruction set."""
    tokens = np.arange(1000, 1096, dtype=np.int32)
    with Model.open(model_path(name)) as model:

        def run(**params) -> np.ndarray:
            with model.context(n_ctx=256, **params) as ctx:
                return ctx.decode(tokens, logits="all")

        want = run(n_threads=1, n_ubatch=512)
        for params in VARIANTS:
            assert np.array_equal(run(**{"n_threads": 1, **params}), want), params
        for isa in ("scalar", "avx2"):
            monkeypatch.setenv("LLAMAPY_ISA", isa)
            assert np.array_equal(run(n_threads=2), want), isa
