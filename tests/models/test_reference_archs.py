"""Every architecture against the reference logits, and the laws that need no reference."""

from __future__ import annotations

import numpy as np
import pytest
from reference import NAMES, RECURRENT, STEPPED, WHOLE, logits, nmse, tolerance

from llamapy.base.errors import ContextError, UsageError
from llamapy.runtime.batch import join, single

TOKENS = logits()["tokens"].tolist()
LEARNED = {"gpt2-dense", "mpt-dense", "starcoder-dense"}  # positions by table, of 256 rows


def context(model, **more):
    params = {"n_ctx": 256, "type_k": "f32", "type_v": "f32", "n_threads": 1, **more}
    return model.context(**params)


def attends(ctx):
    return any(ctx.arch.cache(ctx.hp).n_head_kv)


@pytest.mark.parametrize("name", STEPPED)
def test_one_batch_halves_and_token_by_token(open_model, name):
    want = logits()[name]
    with context(open_model(name)) as ctx:
        whole = ctx.decode(TOKENS, logits="all")
        assert nmse(whole, want) <= tolerance(name)
        ctx.clear()
        halves = np.concatenate([ctx.decode(TOKENS[i : i + 32], logits="all") for i in (0, 32)])
        ctx.clear()
        steps = np.concatenate([ctx.decode([t]) for t in TOKENS])
    assert np.array_equal(halves, whole)
    assert np.array_equal(steps, whole)


@pytest.mark.parametrize("name", NAMES)
def test_f16_cache_stays_close(open_model, name):
    with context(open_model(name), type_k="f16", type_v="f16") as ctx:
        assert nmse(ctx.decode(TOKENS, logits="all"), logits()[name]) <= 5e-6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_threads", [2, 3, 4])
def test_threads_do_not_change_a_bit(open_model, name, n_threads):
    with context(open_model(name)) as one, context(open_model(name), n_threads=n_threads) as many:
        assert np.array_equal(one.decode(TOKENS, logits="all"), many.decode(TOKENS, logits="all"))


@pytest.mark.parametrize("name", STEPPED)
@pytest.mark.parametrize("n_ubatch", [1, 7, 64])
def test_ubatch_size_does_not_change_a_bit(open_model, name, n_ubatch):
    with context(open_model(name)) as one, context(open_model(name), n_ubatch=n_ubatch) as cut:
        assert np.array_equal(one.decode(TOKENS, logits="all"), cut.decode(TOKENS, logits="all"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_instruction_set_does_not_change_a_bit(open_model, name, isa, monkeypatch):
    with context(open_model(name)) as ctx:
        best = ctx.decode(TOKENS, logits="all")
    monkeypatch.setenv("LLAMAPY_ISA", isa)
    try:
        with context(open_model(name)) as ctx:
            low = ctx.decode(TOKENS, logits="all")
    except Exception as e:
        if "this CPU has no" in str(e):
            pytest.skip(str(e))
        raise
    assert np.array_equal(best, low)


@pytest.mark.parametrize("name", STEPPED)
def test_batch_mates_do_not_change_a_bit(open_model, name):
    prompts = [TOKENS[:40], TOKENS[5:30], TOKENS[20:64], TOKENS[3:4]]
    alone = []
    for p in prompts:
        with context(open_model(name), n_ctx=1024) as ctx:
            first = ctx.decode(p)
            alone.append([first, ctx.decode([7]), ctx.decode([9])])
    with context(open_model(name), n_ctx=1024, n_seq_max=4, n_ubatch=32) as ctx:
        together = [
            ctx.decode_batch(join([single(p, 0, s, "last") for s, p in enumerate(prompts)]))
        ]
        for t in (7, 9):
            parts = [single([t], ctx.n_past(s), s, "last") for s in (2, 0, 3, 1)]
            got = ctx.decode_batch(join(parts))
            together.append(got[[1, 3, 0, 2]])
    for s in range(4):
        for step in range(3):
            assert np.array_equal(together[step][s], alone[s][step][0]), (s, step)


@pytest.mark.parametrize("name", STEPPED)
def test_300_steps_build_twice(open_model, name):
    """Once more when the lists of cells grow past 256, where there are any, and positions."""
    with context(open_model(name), n_ctx=512) as ctx:
        n = 250 if name in LEARNED else 300
        built = 2 if n > 256 and attends(ctx) else 1
        for i in range(n):
            ctx.decode([TOKENS[i % 64]])
        assert (ctx.counters.built, ctx.counters.reused) == (built, n - built)


@pytest.mark.parametrize("name", STEPPED)
def test_a_removed_tail_is_computed_again_to_the_same_bits(open_model, name):
    with context(open_model(name)) as ctx:
        first = ctx.decode(TOKENS, logits="all")
        if name in RECURRENT:  # which cannot go back: nothing happens, or all of it goes
            ctx.clear()
            ctx.decode(TOKENS[:40], logits="none")
            assert not ctx.seq_rm(0, 20)
            assert ctx.n_past() == 40
        else:
            assert ctx.seq_rm(0, 40)
        again = ctx.decode(TOKENS[40:], logits="all")
        assert ctx.seq_rm(0, 0)
        assert np.array_equal(ctx.decode(TOKENS, logits="all"), first)
    assert np.array_equal(again, first[40:])


@pytest.mark.parametrize("name", STEPPED)
def test_a_shared_prefix_is_the_prefix(open_model, name):
    with context(open_model(name), n_seq_max=2, n_ctx=512) as ctx:
        ctx.decode(TOKENS[:32], seq_id=0, logits="none")
        ctx.seq_cp(0, 1)
        a = ctx.decode(TOKENS[32:], seq_id=1, logits="all")
    with context(open_model(name), n_ctx=512) as ctx:
        b = ctx.decode(TOKENS, logits="all")[32:]
    assert np.array_equal(a, b)


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_without_order_a_sequence_is_computed_at_once(open_model, name):
    with context(open_model(name), n_seq_max=2, n_ctx=512, n_ubatch=128) as ctx:
        whole = ctx.decode(TOKENS, logits="all")
        assert nmse(whole, logits()[name]) <= tolerance(name)
        with pytest.raises(UsageError, match="all of a sequence at once"):
            ctx.decode([1])
        assert ctx.seq_rm(0, 0)
        both = ctx.decode_batch(join([single(TOKENS, 0, s, "all") for s in (0, 1)]))
    assert np.array_equal(both[:64], whole)
    assert np.array_equal(both[64:], whole)
    with (
        context(open_model(name), n_ubatch=32) as ctx,
        pytest.raises(ContextError, match="larger -ub"),
    ):
        ctx.decode(TOKENS)


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_positions_that_were_not_learned_are_refused(open_model, name):
    with context(open_model(name), n_ctx=512) as ctx:
        ctx.decode(TOKENS * 4)
        with pytest.raises(ContextError, match="learned 256 positions"):
            ctx.decode([1])


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_without_order_batch_mates_do_not_change_a_bit(open_model, name):
    prompts = [TOKENS[:40], TOKENS[5:30], TOKENS[20:64], TOKENS[3:4]]
    alone = []
    for p in prompts:
        with context(open_model(name), n_ctx=1024) as ctx:
            alone.append(ctx.decode(p, logits="all"))
    with context(open_model(name), n_ctx=1024, n_seq_max=4, n_ubatch=256) as ctx:
        mates = [single(p, 0, s, "all") for s, p in enumerate(prompts)]
        together = ctx.decode_batch(join(mates))
        for s in range(4):
            ctx.seq_rm(s, 0)
        at = sorted((i, s) for s, p in enumerate(prompts) for i in range(len(p)))
        turns = [single(prompts[s][i : i + 1], i, s, "all") for i, s in at]  # token by token
        mixed = ctx.decode_batch(join(turns))
    assert np.array_equal(together, np.concatenate(alone))
    assert np.array_equal(mixed, np.stack([alone[s][i] for i, s in at]))
