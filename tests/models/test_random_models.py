"""Architectures without a reference file: models of random weights against the reference's logits,
and the laws that every architecture obeys."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from decoder_models import MODELS as DECODERS
from decoder_models import ROWS
from random_models import MODELS
from recurrent_models import MODELS as RECURRENT
from reference import nmse

from llamapy import Model
from llamapy.base.errors import ContextError, FileError
from llamapy.models.chameleon import IMAGES
from llamapy.runtime.batch import join, single

DATA = Path(__file__).parent.parent / "data"


def saved(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / name) as z:
        return {name: z[name] for name in z.files}


LOGITS = saved("random_logits.npz")
LOGITS_RECURRENT = saved("recurrent_logits.npz")
LOGITS_DECODERS = saved("decoder_logits.npz")
ALL = {**MODELS, **RECURRENT, **DECODERS}
TOP_K = "attention.indexer.top_k"
TOKENS = LOGITS["tokens"].tolist()
# MODELS have GELU, which the reference takes from half-precision tables.
TOLERANCE = dict.fromkeys(MODELS, 1e-6) | dict.fromkeys(RECURRENT | DECODERS, 1e-8)
PARAMS = {"n_ctx": 512, "type_k": "f32", "type_v": "f32", "n_threads": 1}


@pytest.fixture(scope="module", params=sorted(ALL))
def named(request, tmp_path_factory):
    path = ALL[request.param].write(tmp_path_factory.mktemp("random") / "m.gguf")
    with Model.open(path) as model:
        yield request.param, model


def test_logits_and_the_laws(named) -> None:
    name, model = named
    with model.context(**PARAMS) as ctx:
        whole = ctx.decode(TOKENS, logits="all")
        ctx.clear()
        steps = np.concatenate([ctx.decode([t]) for t in TOKENS])
        ctx.clear()
        assert np.array_equal(ctx.decode(TOKENS), whole[-1:])
    want = {**LOGITS, **LOGITS_RECURRENT, **LOGITS_DECODERS}[name]
    got = whole[ROWS] if name in DECODERS else whole[: len(want)]
    if name == "chameleon":
        assert np.all(got[:, IMAGES] == np.finfo(np.float32).min)
        got = np.delete(got, IMAGES, axis=1)
    assert nmse(got, want) <= TOLERANCE[name]
    assert np.array_equal(steps, whole)
    for more in ({"n_threads": 3}, {"n_ubatch": 7}):
        with model.context(**{**PARAMS, **more}) as ctx:
            assert np.array_equal(ctx.decode(TOKENS, logits="all"), whole)
    with model.context(**PARAMS, n_seq_max=2) as ctx:
        parts = [single(TOKENS[: 64 - 20 * s], 0, s, "all") for s in (0, 1)]
        both = ctx.decode_batch(join(parts))
    assert np.array_equal(both[:64], whole)
    assert np.array_equal(both[64:], whole[:44])


def test_there_are_logits_for_every_model() -> None:
    assert LOGITS.keys() == {*MODELS, "tokens"}
    assert LOGITS_RECURRENT.keys() == RECURRENT.keys()
    assert LOGITS_DECODERS.keys() == DECODERS.keys()


def test_contexts_in_which_blocks_would_be_chosen_are_refused(tmp_path) -> None:
    sparse = {"attention.compress_ratios": [0, 4, 0, 4], "attention.indexer.top_k": 256}
    written = RECURRENT["qwen4exp"]
    path = replace(written, keys={**written.keys, **sparse}).write(tmp_path / "m.gguf")
    with Model.open(path) as model:
        with model.context(**PARAMS | {"n_ctx": 256}) as ctx:
            got = ctx.decode(TOKENS[:32], logits="all")
        with pytest.raises(ContextError, match="-c 256"), model.context(**PARAMS) as ctx:
            ctx.decode([1])
    assert nmse(got, LOGITS_RECURRENT["qwen4exp"]) <= 1e-8


@pytest.mark.parametrize("name", ["deepseek32", "minimax-m3"])
def test_longer_contexts_of_sparse_attention_are_refused(tmp_path, name) -> None:
    with Model.open(DECODERS[name].write(tmp_path / "m.gguf")) as model:
        wrong = pytest.raises(ContextError, match="-c 512")
        with wrong, model.context(n_ctx=768) as ctx:
            ctx.decode([1])
    few = replace(DECODERS[name], keys={**DECODERS[name].keys, TOP_K: 1})
    with Model.open(few.write(tmp_path / "few.gguf")) as model, model.context() as ctx:
        assert ctx.params.n_ctx == (128 if name == "minimax-m3" else 1)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"adapters.count": 4}, "adapters.token_ids_activate: expected 4 tokens"),
        ({"adapters.count": 5000}, "adapters.count: expected at most 4096"),
        ({"adapters.token_ids_substitute": [5, 6, 128]}, "expected ids below 128"),
        ({"adapters.token_ids_activate": [5, -6, 12]}, "whole numbers from 0"),
        ({"adapters.lora_rank": 16}, r"attn_q\.lora_a'"),
    ],
)
def test_adapters_that_cannot_be(tmp_path, keys, message) -> None:
    one = DECODERS["graniteswitch"]
    path = one.write(tmp_path / "right.gguf")
    if "adapters.lora_rank" in keys:  # other tensors than the key says
        raw = path.read_bytes().replace(*(b"lora_rank" + struct.pack("<II", 4, n) for n in (8, 16)))
        (tmp_path / "m.gguf").write_bytes(raw)
    else:
        with pytest.raises(FileError, match=message):
            replace(one, keys={**one.keys, **keys}).write(tmp_path / "m.gguf")
        return
    with pytest.raises(FileError, match=message):
        Model.open(tmp_path / "m.gguf")
