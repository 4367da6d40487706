"""Wherever the layers are placed, the logits are the same within what float32 allows, and the
scheduler's promises hold on real graphs."""

from __future__ import annotations

import numpy as np
import pytest
from reference import CORE, GELU, logits, nmse, unpack

from llamapy import Model
from llamapy.devices.ref.device import RefDevice

TOKENS = logits()["tokens"].tolist()


@pytest.mark.parametrize("name", CORE)
@pytest.mark.parametrize("n_gpu_layers", [1, 2, 3])
def test_layers_on_the_numpy_device(name, n_gpu_layers, tmp_path):
    devices = [RefDevice(np.float32)]
    with (
        Model.open(unpack(name, tmp_path), devices=devices, n_gpu_layers=n_gpu_layers) as model,
        model.context(n_ctx=256, type_k="f32", type_v="f32") as ctx,
    ):
        whole = ctx.decode(TOKENS, logits="all")
        ctx.clear()
        steps = np.concatenate([ctx.decode([t]) for t in TOKENS])
    limit = 1e-6 if name in GELU else 1e-8
    assert nmse(whole, logits()[name]) <= limit
    assert nmse(steps, logits()[name]) <= limit


@pytest.mark.parametrize("name", CORE)
def test_one_tensor_on_another_device(name, tmp_path):
    devices = [RefDevice(np.float32)]
    override = [(r"blk\.1\.ffn_down", "ref")]
    with (
        Model.open(unpack(name, tmp_path), devices=devices, override_tensor=override) as model,
        model.context(n_ctx=256, type_k="f32", type_v="f32") as ctx,
    ):
        assert model.placement.buft["blk.1.ffn_down.weight"].name == "ref"
        whole = ctx.decode(TOKENS, logits="all")
        text = ctx.dump_graph("prompt")
    assert nmse(whole, logits()[name]) <= (1e-6 if name in GELU else 1e-8)
    assert "ref" in text


@pytest.mark.parametrize("name", CORE)
def test_what_is_reserved_is_all_that_is_ever_opened(name, open_model, monkeypatch):
    monkeypatch.setenv("LLAMAPY_STRICT_REUSE", "1")
    monkeypatch.setenv("LLAMAPY_VERIFY", "1")
    with open_model(name).context(n_ctx=512, n_ubatch=64, n_seq_max=2, n_threads=2) as ctx:
        before = ctx.buffer_bytes()
        for n in (1, 5, 64, 33, 1, 100, 1):
            ctx.decode((TOKENS * 2)[:n])
        ctx.decode(TOKENS[:7], seq_id=1)
        assert ctx.buffer_bytes() == before
        assert ctx._sched.n_reallocs == 0


@pytest.mark.parametrize("n_threads", [1, 2, 8])
def test_no_ubatch_over_a_long_context_takes_more_than_is_reserved(
    open_model, monkeypatch, n_threads
):
    monkeypatch.setenv("LLAMAPY_STRICT_REUSE", "1")
    with open_model("llama-dense").context(n_ctx=1 << 15, n_ubatch=32, n_threads=n_threads) as ctx:
        for n_tokens in range(1, 33):  # planned as if the context were full
            ctx._build(ctx._worst.key(n_tokens, 1))
        assert ctx._sched.n_reallocs == 0


@pytest.mark.parametrize("name", CORE)
def test_fused_equals_unfused(name, open_model):
    model = open_model(name)
    with model.context(n_ctx=256) as on, model.context(n_ctx=256, fusion=False) as off:
        assert "fused(" in on.dump_graph()
        a, b = on.decode(TOKENS, logits="all"), off.decode(TOKENS, logits="all")
    assert np.array_equal(a, b)


@pytest.mark.parametrize("format, start", [("text", "buffer "), ("dot", "digraph"), ("json", "{")])
def test_the_planned_graph_can_be_shown(open_model, format, start):
    with open_model("llama-dense").context(n_ctx=256) as ctx:
        for kind in ("decode", "prompt"):
            text = ctx.dump_graph(kind, format)
            assert text.startswith(start)
            assert "ffn_act-1" in text
