"""T5: a text is encoded once, tokens attend to it. Models of random weights against the reference's
logits, and the laws that every architecture obeys."""

from __future__ import annotations

import io
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import random_t5
from fake_model import FakeTokenizer
from reference import nmse

from llamapy import Model
from llamapy.app.generate import Prefill, Settings, generate
from llamapy.app.logits import LogitsSettings, write_logits
from llamapy.base.errors import ContextError, FileError, LlamapyError, UsageError
from llamapy.models.blocks.t5 import bucket
from llamapy.runtime.batch import join, single
from llamapy.runtime.embed import embed
from llamapy.sample import SamplerParams

NAMES = sorted(random_t5.MODELS)
with np.load(Path(__file__).parent.parent / "data" / "t5_logits.npz") as z:
    WANT = {name: z[name] for name in z.files}
TEXT, SAID = WANT["text"].tolist(), WANT["said"].tolist()
PARAMS = {"n_ctx": 512, "type_k": "f32", "type_v": "f32", "n_threads": 1}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder, models = tmp_path_factory.mktemp("t5"), {}

    def get(name):
        if name not in models:
            models[name] = Model.open(random_t5.write(folder / f"{name}.gguf", name))
        return models[name]

    yield get
    for model in models.values():
        model.close()


def run(model, text=TEXT, said=SAID, **more):
    with model.context(**{**PARAMS, **more}) as ctx:
        ctx.encode(text)
        return ctx.decode(said, logits="all")


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_the_references(opened, name):
    got = run(opened(name))
    # The reference takes the gate's GELU from a table of halves.
    assert nmse(got[3::4], WANT[name]) <= (1e-10 if name == "t5" else 1e-6)
    assert opened(name).hparams.stacks.start == SAID[0] == 7


@pytest.mark.parametrize("name", NAMES)
def test_cuts_threads_and_mates_do_not_change_a_bit(opened, name):
    model, whole = opened(name), run(opened(name))
    with model.context(**PARAMS) as ctx:
        ctx.encode(TEXT)
        assert ctx.n_past() == 0
        steps = np.concatenate([ctx.decode([t]) for t in SAID])
        assert ctx.n_past() == len(SAID)
        assert ctx.counters.reused > 100
    assert np.array_equal(steps, whole)
    assert np.array_equal(run(model, n_threads=3), whole)
    texts = [TEXT, TEXT[50:120], TEXT[:1]]
    with model.context(**PARAMS, n_seq_max=3) as ctx:
        for seq in (2, 0, 1):
            ctx.encode(texts[seq], seq_id=seq)
        both = ctx.decode_batch(join([single(SAID[:40], 0, seq, "all") for seq in range(3)]))
    assert np.array_equal(both[:40], whole[:40])
    for seq in (1, 2):
        alone = run(model, texts[seq], SAID[:40])
        assert np.array_equal(both[40 * seq :][:40], alone)
        assert not np.array_equal(alone, whole[:40])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_instruction_set_does_not_change_a_bit(opened, name, isa, monkeypatch):
    best = run(opened(name))
    monkeypatch.setenv("LLAMAPY_ISA", isa)
    try:
        low = run(opened(name))
    except LlamapyError as e:
        if "this CPU has no" in str(e):
            pytest.skip(str(e))
        raise
    assert np.array_equal(best, low)


def test_sequences(opened):
    """Going back keeps the text, removing all of a sequence ends it; copies share it."""
    model, whole = opened("flan"), run(opened("flan"))
    with model.context(**PARAMS, n_seq_max=2) as ctx:
        ctx.encode(TEXT)
        ctx.decode(SAID[:9], logits="none")
        ctx.decode([1, 2, 3], logits="none")
        assert ctx.seq_rm(0, 9)
        ctx.seq_cp(0, 1)
        for seq in (0, 1):
            assert np.array_equal(ctx.decode(SAID[9:20], seq_id=seq, logits="all"), whole[9:20])
        with pytest.raises(UsageError, match="has a text already"):
            ctx.encode(TEXT)
        assert ctx.seq_rm(0, 0)
        with pytest.raises(UsageError, match="no text to attend to"):
            ctx.decode(SAID)
        ctx.encode(TEXT[:7])
        with pytest.raises(UsageError, match="at once"):
            ctx.encode(TEXT)
        assert np.array_equal(ctx.decode(SAID[:5], logits="all"), run(model, TEXT[:7], SAID[:5]))
        assert np.array_equal(ctx.decode([SAID[20]], seq_id=1), whole[20:21])
        ctx.clear()
        with pytest.raises(UsageError, match="no text to attend to"):
            ctx.decode(SAID, seq_id=1)


def test_saved_and_loaded(opened):
    model, whole = opened("t5"), run(opened("t5"))
    with model.context(**PARAMS) as ctx:
        ctx.encode(TEXT)
        ctx.decode(SAID[:30], logits="none")
        data = ctx.state_save()
    with model.context(**{**PARAMS, "n_ctx": 768}, n_seq_max=2) as ctx:
        ctx.state_load(data, 1)
        assert np.array_equal(ctx.decode(SAID[30:], seq_id=1, logits="all"), whole[30:])


@pytest.mark.parametrize("name", NAMES)
def test_the_encoder_alone_gives_embeddings(tmp_path, name):
    path = random_t5.write(tmp_path / "m.gguf", name, "t5encoder")
    with Model.open(path) as model:
        with model.context(**PARAMS) as ctx:
            each = ctx.embed(TEXT, pooling="none")
            assert np.array_equal(ctx.embed(TEXT, pooling="last"), each[-1])
            with pytest.raises(UsageError, match="has no encoder"):
                ctx.encode(TEXT)
        with model.context(**{**PARAMS, "n_threads": 3}, n_seq_max=2) as ctx:
            both = list(embed(ctx, [TEXT, TEXT[:70]], "none"))
        with model.context(**PARAMS) as ctx:
            assert np.array_equal(both[1], ctx.embed(TEXT[:70], pooling="none"))
    assert np.array_equal(both[0], each)
    assert nmse(each[3::8], WANT[f"encoder-{name}"]) <= (1e-10 if name == "t5" else 1e-6)


def test_a_prompt_is_the_text(opened):
    """The answer begins with the model's start token, which alone of both penalties know."""
    model, n = opened("flan"), 12
    with model.context(**PARAMS) as ctx:
        ctx.encode(TEXT)
        want, logits = [], ctx.decode([7])
        for _ in range(n):
            want.append(int(logits[-1].argmax()))
            logits = ctx.decode(want[-1:])
    asked = SimpleNamespace(
        tokenizer=FakeTokenizer(),
        hparams=model.hparams,
        context=model.context,
        will_generate=model.will_generate,
    )
    settings = Settings(n_predict=n, type_k="f32", type_v="f32", sampling=SamplerParams(temp=0.0))
    *events, last = generate(asked, TEXT, settings)
    assert last.ids == want
    assert last.n_prompt == len(TEXT)
    assert [e for e in events if isinstance(e, Prefill)] == [Prefill(len(TEXT), len(TEXT))]


def test_a_cache_of_other_types(opened):
    """The encoder's K and V are in it as well."""
    assert nmse(run(opened("t5"), type_k="f16", type_v="f16")[3::4], WANT["t5"]) <= 1e-4


def test_what_cannot_be_encoded(opened, open_model):
    with opened("t5").context(**{**PARAMS, "n_ctx": 256}, n_ubatch=64) as ctx:
        sizes = ctx.buffer_bytes()
        with pytest.raises(ContextError, match="one go of at most 64"):
            ctx.encode(TEXT)
        with pytest.raises(UsageError, match="outside the vocabulary"):
            ctx.encode([128])
        with pytest.raises(UsageError):
            ctx.encode([])
        ctx.encode(TEXT[:64])
        assert ctx.buffer_bytes() == sizes
    with (
        open_model("llama-dense").context(n_ctx=64) as ctx,
        pytest.raises(UsageError, match="no enc"),
    ):
        ctx.encode([1])


@pytest.mark.parametrize("n", [0, 6, 132])
def test_a_number_of_buckets_that_no_distance_needs_is_refused(tmp_path, n, monkeypatch):
    monkeypatch.setitem(random_t5.KEYS, "attention.relative_buckets_count", n)
    with pytest.raises(FileError, match="relative_buckets_count"):
        random_t5.write(tmp_path / "m.gguf", "t5")


@pytest.mark.parametrize("n", [4, 8, 32, 64, 128])
def test_buckets(n):
    """As the paper's own program computes them, in floats; beyond reach nothing changes."""
    for far in range(-200, 201):
        near = max(-128, min(128, far))
        for both, half in ((True, n // 2), (False, n)):
            d, exact = abs(far) if both else max(-far, 0), half // 2
            want = d
            if d >= exact:
                share = np.float32(math.log(d / exact)) / np.float32(math.log(128 / exact))
                want = min(exact + int(share * np.float32(half - exact) + 1e-6), half - 1)
            want += half if both and far > 0 else 0
            assert bucket(near, n, both=both) == want, (far, both)


def test_the_command_writes_logits_of_the_answers_first_token(opened) -> None:
    model, out = opened("t5"), io.BytesIO()
    settings = LogitsSettings(n_ctx=256, type_k="f32", type_v="f32", n_threads=1)
    *_, written = write_logits(model, TEXT, out, settings)
    got = np.load(io.BytesIO(out.getvalue()))
    assert written.shape == got.shape == (1, 128)
    assert np.array_equal(got, run(model, said=SAID[:1], n_ctx=256))
