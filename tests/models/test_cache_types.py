"""Every type of cache: K and V in any pairing, the laws of one answer, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from reference import CORE, logits, nmse, unpack
from test_odd_shapes import write

from llamapy import Model
from llamapy.base.errors import UsageError
from llamapy.base.types import CACHE_TYPES
from llamapy.devices.ref.device import RefDevice
from llamapy.runtime.batch import join, single

TOKENS = logits()["tokens"].tolist()
# Largest NMSE over the three models, of a cache of the type in both K and V.
LOSS = {
    "f32": 1e-6, "f16": 5e-6, "bf16": 3e-5, "q8_0": 3e-4, "q5_1": 1e-2, "q5_0": 1.5e-2,
    "q4_1": 4e-2, "q4_0": 5e-2, "iq4_nl": 4e-2,
}  # fmt: skip
PAIRS = [("q8_0", "q8_0"), ("bf16", "q5_1"), ("q5_0", "f32"), ("f16", "q4_0"), ("q4_1", "iq4_nl")]


def context(model, types, **more):
    return model.context(**{"n_ctx": 256, "type_k": types[0], "type_v": types[1], **more})


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("type_", CACHE_TYPES)
def test_a_cache_stays_as_close_as_its_bits_allow(open_model, name, type_):
    with context(open_model(name), (type_, type_)) as ctx:
        assert nmse(ctx.decode(TOKENS, logits="all"), logits()[name]) <= LOSS[type_]


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("types", PAIRS, ids="-".join)
def test_one_batch_halves_steps_and_threads(open_model, name, types):
    with context(open_model(name), types) as ctx:
        whole = ctx.decode(TOKENS, logits="all")
        ctx.clear()
        halves = np.concatenate([ctx.decode(TOKENS[i : i + 32], logits="all") for i in (0, 32)])
        ctx.clear()
        steps = np.concatenate([ctx.decode([t]) for t in TOKENS])
        ctx.clear()
    with context(open_model(name), types, n_threads=3, n_ubatch=7) as ctx:
        cut = ctx.decode(TOKENS, logits="all")
    for other in (halves, steps, cut):
        assert np.array_equal(other, whole)


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("types", PAIRS, ids="-".join)
def test_batch_mates_and_scattered_cells_do_not_change_a_bit(open_model, name, types):
    prompts = [TOKENS[:40], TOKENS[5:30], TOKENS[20:64]]
    alone = []
    for p in prompts:
        with context(open_model(name), types) as ctx:
            alone.append([ctx.decode(p)[0], ctx.decode([7])[0]])
    with context(open_model(name), types, n_ctx=512, n_seq_max=4) as ctx:
        ctx.decode(TOKENS[:9], seq_id=3)
        ctx.decode(TOKENS[:3], seq_id=0)
        ctx.seq_rm(3, 4)
        ctx.seq_rm(0, 0)
        first = ctx.decode_batch(join([single(p, 0, s, "last") for s, p in enumerate(prompts)]))
        parts = [single([7], ctx.n_past(s), s, "last") for s in range(3)]
        then = ctx.decode_batch(join(parts))
    for s in range(3):
        assert np.array_equal(first[s], alone[s][0])
        assert np.array_equal(then[s], alone[s][1])


@pytest.mark.parametrize("types", PAIRS, ids="-".join)
@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_instruction_set_does_not_change_a_bit(open_model, types, isa, monkeypatch):
    model = open_model("gemma3-dense")
    with context(model, types) as ctx:
        best = ctx.decode(TOKENS, logits="all")
    monkeypatch.setenv("LLAMAPY_ISA", isa)
    try:
        with context(model, types) as ctx:
            low = ctx.decode(TOKENS, logits="all")
    except Exception as e:
        if "this CPU has no" in str(e):
            pytest.skip(str(e))
        raise
    assert np.array_equal(best, low)


@pytest.mark.parametrize("type_", CACHE_TYPES)
def test_the_reference_device_means_the_same(tmp_path, type_):
    """A value on the border of two steps may fall to either side, so not to the last digit."""
    with (
        Model.open(
            unpack("llama-dense", tmp_path), devices=[RefDevice(np.float64)], n_gpu_layers=99
        ) as m,
        context(m, (type_, type_)) as ctx,
    ):
        want = ctx.decode(TOKENS[:24], logits="all")
    with Model.open(unpack("llama-dense", tmp_path)) as m, context(m, (type_, type_)) as ctx:
        assert nmse(ctx.decode(TOKENS[:24], logits="all"), want) < LOSS[type_] / 30


def test_a_cache_takes_the_bytes_of_its_type(open_model):
    n_bytes = {}
    for type_ in ("f32", "f16", "q8_0", "q4_0"):
        with context(open_model("llama-dense"), (type_, type_)) as ctx:
            n_bytes[type_] = ctx.buffer_bytes()["kv"]
    assert n_bytes["f32"] == 2 * n_bytes["f16"]
    assert n_bytes["q8_0"] * 128 == n_bytes["f32"] * 34
    assert n_bytes["q4_0"] * 128 == n_bytes["f32"] * 18


@pytest.mark.parametrize(
    ("types", "heads", "says"),
    [
        (("q8_0", "f16"), (16, 32), "a cache of K in q8_0 takes heads of a multiple of 32"),
        (("bf16", "iq4_nl"), (16, 48), "a cache of V in iq4_nl .* have 48"),
    ],
)
def test_heads_that_are_not_whole_blocks_are_refused(tmp_path, types, heads, says):
    path = write(tmp_path / "m.gguf", head_k=heads[0], head_v=heads[1])
    with Model.open(path) as model:
        with pytest.raises(UsageError, match=says) as error:
            context(model, types)
        assert error.value.exit_code == 2
        with context(model, ("f16", "f16")) as ctx:
            ctx.decode(TOKENS[:3])
