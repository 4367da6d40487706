"""A saved sequence goes on with the same bits, wherever it is loaded."""

from __future__ import annotations

import numpy as np
import pytest
from reference import CORE, STEPPED

from llamapy.base.errors import UsageError

TOKENS = [i * 7 % 128 for i in range(60)]


@pytest.mark.parametrize(
    "name, k, v", [(n, "f32", "f32") for n in STEPPED] + [(n, "f16", "q8_0") for n in CORE]
)
def test_a_loaded_sequence_goes_on_with_the_same_bits(open_model, name, k, v):
    with open_model(name).context(n_ctx=256, n_seq_max=2, type_k=k, type_v=v) as ctx:
        ctx.decode(TOKENS[::-1], seq_id=1)
        ctx.decode(TOKENS[:40])
        data = ctx.state_save()
        want = ctx.decode(TOKENS[40:], logits="all")
    sizes = {"n_ctx": 64, "n_ubatch": 7, "n_threads": 2, "type_k": k, "type_v": v}
    with open_model(name).context(**sizes) as ctx:
        ctx.state_load(data)
        assert ctx.n_past() == 40
        assert ctx.state_save() == data
        assert np.array_equal(ctx.decode(TOKENS[40:], logits="all"), want)


def test_what_is_wrong_is_said(open_model):
    with open_model("llama-dense").context(n_ctx=256) as ctx, pytest.raises(UsageError) as e:
        ctx.decode(TOKENS)
        data = ctx.state_save()
        for bad in (lambda: ctx.state_load(data), lambda: ctx.state_save(1),
                    lambda: ctx.state_load(data, 1)):  # fmt: skip
            with pytest.raises(UsageError, match="sequence"):
                bad()
        with open_model("gemma3-dense").context(n_ctx=256) as other:
            other.state_load(data)
    assert "architecture llama" in str(e.value)
    with pytest.raises(UsageError, match="closed"):
        ctx.state_save()
