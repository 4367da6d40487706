"""Encoders: against the reference implementation, and the laws that need no reference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import random_encoders
from reference import nmse

from llamapy import Model
from llamapy.base.errors import ContextError, FileError, UsageError
from llamapy.runtime.embed import embed, normalised

NAMES = sorted(random_encoders.MODELS)
# The reference takes GELU from a table of halves; the others it computes as exactly as we do.
EXACT = {"nomic-bert", "modern-bert-silu", "neo-bert", "eurobert", "llama-embed"}
with np.load(Path(__file__).parent.parent / "data" / "encoders.npz") as z:
    WANT = {name: z[name] for name in z.files}
TOKENS = WANT["tokens"].tolist()
TEXTS = [TOKENS[:17], TOKENS[3:40], TOKENS[8:9], TOKENS[20:33]]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder, opened = tmp_path_factory.mktemp("encoders"), {}

    def get(name):
        if name not in opened:
            path = random_encoders.write(folder / f"{name}.gguf", name)
            opened[name] = Model.open(path)
        return opened[name]

    yield get
    for model in opened.values():
        model.close()


def context(model, **more):
    return model.context(**{"n_ctx": 256, "type_k": "f32", "type_v": "f32", "n_threads": 1, **more})


@pytest.mark.parametrize("name", NAMES)
def test_every_token_is_the_references(encoder, name):
    with context(encoder(name)) as ctx:
        got = ctx.embed(TOKENS, pooling="none")
    assert got.shape == (40, 64)
    assert nmse(got, WANT[name]) <= (1e-10 if name in EXACT else 2e-6)


@pytest.mark.parametrize("name", ["bert", "modern-bert"])
def test_ranks_are_the_references(encoder, name):
    with context(encoder(name)) as ctx:
        assert np.allclose(ctx.embed(TOKENS, pooling="rank"), WANT[f"{name}-rank"], atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_one_token_for_all(encoder, name):
    """Poolings are rows of the same, or their mean."""
    model = encoder(name)
    with context(model) as ctx:
        each = ctx.embed(TOKENS, pooling="none")
        assert np.array_equal(ctx.embed(TOKENS, pooling="cls"), each[0])
        assert np.array_equal(ctx.embed(TOKENS, pooling="last"), each[-1])
        mean = ctx.embed(TOKENS)  # what an encoder does when the file does not say
        assert np.array_equal(mean, ctx.embed(TOKENS, pooling="mean"))
        assert nmse(mean, each.mean(axis=0)) <= 1e-12
        assert ctx.n_past() == 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pooling", ["none", "mean", "cls"])
def test_batch_mates_do_not_change_a_bit(encoder, name, pooling):
    with context(encoder(name), n_ctx=128, n_seq_max=3, n_ubatch=48) as ctx:
        together = list(embed(ctx, TEXTS, pooling))
    for text, got in zip(TEXTS, together, strict=True):
        with context(encoder(name), n_threads=3) as ctx:
            assert np.array_equal(ctx.embed(text, pooling=pooling), got)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_instruction_set_does_not_change_a_bit(encoder, name, isa, monkeypatch):
    with context(encoder(name)) as ctx:
        best = ctx.embed(TOKENS, pooling="none")
    monkeypatch.setenv("LLAMAPY_ISA", isa)
    try:
        with context(encoder(name)) as ctx:
            low = ctx.embed(TOKENS, pooling="none")
    except Exception as e:
        if "this CPU has no" in str(e):
            pytest.skip(str(e))
        raise
    assert np.array_equal(best, low)


def test_no_logits(encoder):
    with context(encoder("bert")) as ctx, pytest.raises(UsageError, match="llamapy embed"):
        ctx.decode(TOKENS)


def test_what_cannot_be_embedded(encoder):
    with context(encoder("bert"), n_ctx=80, n_ubatch=32) as ctx:
        with pytest.raises(UsageError, match="without tokens"):
            ctx.embed([])
        with pytest.raises(UsageError, match="pooling must be"):
            ctx.embed([1], pooling="median")
        with pytest.raises(ContextError, match="one go of at most 32"):
            ctx.embed(TOKENS)
        with pytest.raises(ContextError, match="64 positions"):
            ctx.embed([1] * 65)
        assert ctx.embed([1, 2, 3]).shape == (64,)  # nothing is left behind
    with context(encoder("eurobert")) as ctx, pytest.raises(UsageError, match="no matrix that"):
        ctx.embed([1], pooling="rank")


@pytest.mark.parametrize("pooling", ["cls", "last", "rank"])
def test_pooling_is_the_files(tmp_path, pooling):
    path = random_encoders.write(tmp_path / "m.gguf", "bert", pooling=pooling)
    with Model.open(path) as model, context(model) as ctx:
        assert np.array_equal(ctx.embed(TOKENS), ctx.embed(TOKENS, pooling=pooling))


def test_a_decoders_last_token(open_model):
    """Also a text longer than a ubatch, of which the mean is that of all tokens."""
    model = open_model("llama-dense")
    with context(model) as ctx:
        last, mean = ctx.embed(TOKENS), ctx.embed(TOKENS, pooling="mean")
        assert np.array_equal(last, ctx.embed(TOKENS, pooling="none")[-1])
        logits = ctx.decode(TOKENS)
    with context(model, n_ubatch=7) as ctx:
        assert np.array_equal(ctx.embed(TOKENS), last)
        assert np.array_equal(ctx.embed(TOKENS, pooling="mean"), mean)
        assert np.array_equal(ctx.decode(TOKENS), logits)


def test_norms():
    x = np.array([[3.0, -4.0], [0.0, 0.0]], np.float32)
    assert normalised(x, "none") is x
    assert np.allclose(normalised(x, "l2"), [[0.6, -0.8], [0, 0]])
    assert np.allclose(normalised(x, "l1"), [[3 / 7, -4 / 7], [0, 0]])
    assert np.allclose(normalised(x, "max"), [[0.75, -1], [0, 0]])


def test_an_encoder_that_looks_back_only_is_refused(tmp_path):
    blob = random_encoders.write(tmp_path / "a.gguf", "bert").read_bytes()
    key = b"bert.attention.causal" + (7).to_bytes(4, "little")
    (tmp_path / "b.gguf").write_bytes(blob.replace(key + b"\0", key + b"\1"))
    with pytest.raises(FileError, match=r"attention\.causal"):
        Model.open(tmp_path / "b.gguf")
