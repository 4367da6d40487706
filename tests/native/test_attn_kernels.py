"""Attention means softmax(q K^T) V over what each query sees (float64, by tolerance).

Its bits do not depend on the batch, on where cells lie, on what else lies in the cache, or on
being done in parts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from cases_attn import (
    Attention,
    attentions,
    biased,
    cache,
    causal,
    in_blocks,
    make,
    queries,
    whole_groups,
    wide_heads,
)
from harness import Case, Operand, operand, result, row_of, run, values

from llamapy.base.errors import KernelError
from llamapy.base.types import BY_NAME, CACHE_TYPES
from llamapy.ffi.lib import load

FLOATS = [("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16"), ("bf16", "bf16")]
TYPES = [*FLOATS, *((name, name) for name in CACHE_TYPES[3:]), ("q8_0", "q4_0"), ("f16", "q5_1")]
LAWS = [("f16", "f16"), ("q8_0", "q8_0"), ("q4_1", "f16"), ("bf16", "iq4_nl")]


def isas() -> list[str]:
    rows = [k for k in load().kernels if k.family == "flash_attn" and not k.need & ~load().features]
    return sorted({k.isa for k in rows})


def attend(a: Attention, isa: str = "scalar", n_threads: int = 1) -> np.ndarray:
    """[n_tokens, n_head, n_embd_head_v]"""
    row = row_of("flash_attn", "kv", "kv", isa)
    n_tokens, n_head, _ = a.q.shape
    raw = run(row.index, a.whole(), n_threads)
    return values(raw, np.float32, (a.n_embd_v, n_head, n_tokens))


def parts_of(a: Attention, isa: str) -> list[Operand]:
    """What a merge reads."""
    part = row_of("flash_attn_part", "kv", "kv", isa)
    case = a.parts()
    parts = values(run(part.index, case, split_for=3), np.float32, case.dst.ne)
    return [operand(parts.copy())] + ([] if a.sinks is None else [operand(a.sinks)])


def in_parts(a: Attention, isa: str) -> np.ndarray:
    n_tokens, n_head, _ = a.q.shape
    dst = result("f32", (a.n_embd_v * n_head, n_tokens))
    raw = run(row_of("flash_attn_merge", isa=isa).index, Case(parts_of(a, isa), dst))
    return values(raw, np.float32, (a.n_embd_v, n_head, n_tokens))


def slopes(n_head: int, max_bias: float) -> np.ndarray:
    """Press et al. 2022."""
    n2 = 2 ** int(np.log2(n_head))
    m0, m1 = 2.0 ** (-max_bias / n2), 2.0 ** (-max_bias / 2 / n2)
    return np.array([m0 ** (h + 1) if h < n2 else m1 ** (2 * (h - n2) + 1) for h in range(n_head)])


def meaning(a: Attention) -> np.ndarray:
    q, (k, v) = a.q.astype(np.float64), a.values
    n_tokens, n_head, _ = q.shape
    group = n_head // k.shape[1]
    slope = slopes(n_head, a.max_bias) if a.max_bias else np.zeros(n_head)
    out = np.zeros((n_tokens, n_head, v.shape[2]))
    for t, (which, lo, hi, own) in enumerate(a.range):
        places = np.arange(lo, hi)
        places = places[a.idx[which, lo:hi] >= 0]
        cells = a.idx[which, places]
        for h in range(n_head):
            s = k[cells, h // group] @ q[t, h] * a.scale
            if a.softcap:
                s = a.softcap * np.tanh(s / a.softcap)
            s = s + slope[h] * -abs(places - own)
            if a.bias is not None:
                reach = len(a.bias) // 2
                s = s + a.bias[np.clip(places - own, -reach, reach) + reach, h]
            top = max([*s, -1e30 if a.sinks is None else a.sinks[h]], default=-1e30)
            p = np.exp(s - top)
            total = p.sum() + (0.0 if a.sinks is None else np.exp(a.sinks[h] - top))
            if total:
                out[t, h] = (p / total) @ v[cells, h // group]
    return out


def _all(*t: str) -> list[Attention]:
    rng = np.random.default_rng(11)
    if any(BY_NAME[name].quantised for name in t):
        return [*in_blocks(rng, t), *wide_heads(rng, t)]
    more = [
        make(rng, t, (6, 3), (32, 48), 7, 70, 128, sinks=True, name="sinks"),
        make(rng, t, (3, 1), (96, 96), 100, 0, 128, name="two blocks of rows"),
        make(rng, t, (71, 1), (16, 16), 3, 20, 64, name="a group wider than a block"),
    ]
    return attentions(rng, t) + more + biased(rng, t)


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_scalar_means_softmax(types: tuple[str, str]) -> None:
    for a in _all(*types):
        got, want = attend(a), meaning(a)
        # A weighted mean of v: errors of s pass through exp, so they count absolutely.
        bound = 2e-6 * (1 + a.scale * 40) * np.abs(a.values[1]).max()
        assert np.abs(got - want).max() < bound, (a.name, np.abs(got - want).max(), bound)


@pytest.mark.parametrize("types", TYPES, ids=str)
def test_parts_then_merge_equal_the_whole(types: tuple[str, str]) -> None:
    for isa in isas():
        for a in _all(*types):
            assert np.array_equal(in_parts(a, isa), attend(a, isa)), (isa, a.name)


@pytest.mark.parametrize("isa", isas())
def test_a_quantised_result_equals_two_steps(isa: str) -> None:
    whole = row_of("flash_attn_quant", "kv", "kv", isa)
    merge, quant = (row_of(n, "x8", "f32", isa) for n in ("flash_attn_merge_quant", "quant_act"))
    found = whole_groups(_all("f16", "f16"))
    assert len(found) > 9 and found[0].n_embd_v == 64
    found[0].v[found[0].idx[0, 3], 0, 40] = np.nan  # of one group in a head
    for a in found:
        n_tokens, n_head, _ = a.q.shape
        dst = result("x8", (a.n_embd_v * n_head, n_tokens))
        two = run(quant.index, Case([operand(attend(a, isa).reshape(n_tokens, -1))], dst))
        assert run(whole.index, a.whole("x8"), split_for=3) == two, a.name
        assert run(merge.index, Case(parts_of(a, isa), dst), split_for=3) == two, a.name


def test_a_head_that_is_not_whole_groups_is_not_quantised() -> None:
    a = make(np.random.default_rng(13), ("f16", "f16"), (4, 2), (32, 48), 3, 20, 64)
    with pytest.raises(KernelError):
        run(row_of("flash_attn_quant", "kv", "kv").index, a.whole("x8"))
    merge = Case(parts_of(a, "scalar"), result("x8", (192, 3)))
    with pytest.raises(KernelError):
        run(row_of("flash_attn_merge_quant", "x8").index, merge)


@pytest.mark.parametrize("types", LAWS, ids=str)
@pytest.mark.parametrize("isa", isas())
def test_one_batch_equals_one_query_at_a_time(isa: str, types: tuple[str, str]) -> None:
    for a in _all(*types):
        batch = attend(a, isa, n_threads=2)
        for t in range(a.q.shape[0]):
            one = dataclasses.replace(a, q=a.q[t : t + 1], range=a.range[t : t + 1])
            assert np.array_equal(attend(one, isa)[0], batch[t]), (a.name, t)


@pytest.mark.parametrize("types", LAWS, ids=str)
@pytest.mark.parametrize("isa", isas())
def test_scattered_cells_equal_contiguous_ones(isa: str, types: tuple[str, str]) -> None:
    for a in _all(*types):
        flat = np.arange(a.idx.size, dtype=np.int32).reshape(a.idx.shape)
        k = np.zeros((a.idx.size, *a.k.shape[1:]), a.k.dtype)
        v = np.zeros((a.idx.size, *a.v.shape[1:]), a.v.dtype)
        k[flat[a.idx >= 0]], v[flat[a.idx >= 0]] = a.k[a.idx[a.idx >= 0]], a.v[a.idx[a.idx >= 0]]
        there = np.where(a.idx >= 0, flat, -1).astype(np.int32)
        moved = dataclasses.replace(a, k=k, v=v, idx=there)
        assert np.array_equal(attend(moved, isa), attend(a, isa)), a.name


@pytest.mark.parametrize("types", LAWS, ids=str)
@pytest.mark.parametrize("isa", isas())
def test_cells_out_of_sight_do_not_matter(isa: str, types: tuple[str, str]) -> None:
    """Cells of others, and places behind or before the range, hold NaN (all bits set in blocks, so
    that their scales are NaN): the same bits."""
    for a in _all(*types):
        seen = np.zeros(len(a.k), bool)
        for which, lo, hi, _ in a.range:
            cells = a.idx[which, lo:hi]
            seen[cells[cells >= 0]] = True
        k, v = a.k.copy(), a.v.copy()
        for x in (k, v):
            x[~seen] = np.nan if x.dtype.kind == "f" else np.iinfo(x.dtype).max
        assert np.array_equal(attend(dataclasses.replace(a, k=k, v=v), isa), attend(a, isa)), a.name


@pytest.mark.parametrize("isa", isas())
def test_a_later_key_does_not_reach_an_earlier_query(isa: str) -> None:
    rng = np.random.default_rng(3)
    a = make(rng, ("f16", "f16"), (4, 1), (64, 64), 30, 20, 64)
    want = attend(a, isa)
    k, v = a.k.copy(), a.v.copy()
    k[a.idx[0, 40]], v[a.idx[0, 40]] = np.nan, np.inf
    got = attend(dataclasses.replace(a, k=k, v=v), isa)
    assert np.array_equal(got[:20], want[:20])
    assert np.isnan(got[20:]).all()


@pytest.mark.parametrize("isa", isas())
def test_a_bad_index_or_range_is_refused(isa: str) -> None:
    rng = np.random.default_rng(4)
    a = make(rng, ("f32", "f32"), (2, 1), (32, 32), 3, 20, 64)
    n_cells = len(a.k)
    for place, cell in ((0, n_cells), (22, -2), (5, 2**30)):
        idx = a.idx.copy()
        idx[0, place] = cell
        with pytest.raises(KernelError):
            attend(dataclasses.replace(a, idx=idx), isa)
        with pytest.raises(KernelError):
            in_parts(dataclasses.replace(a, idx=idx), isa)
    for bad in ((1, 0, 5, 4), (-1, 0, 5, 4), (0, -1, 5, 4), (0, 5, 4, 4), (0, 0, 65, 4)):
        ranges = a.range.copy()
        ranges[1] = bad
        with pytest.raises(KernelError):
            attend(dataclasses.replace(a, range=ranges), isa)


def test_a_query_that_sees_nothing_gives_zeros() -> None:
    rng = np.random.default_rng(5)
    a = make(rng, ("f16", "f16"), (2, 1), (32, 32), 2, 20, 64)
    a.range[:, 1] = a.range[:, 2] = 7
    assert (attend(a) == 0).all()
    a.sinks = np.ones(2, np.float32)
    assert (attend(a) == 0).all()


def test_long_context_stays_accurate() -> None:
    """4096 places: 64 merges do not lose digits."""
    rng = np.random.default_rng(6)
    n = 4096
    a = Attention(
        queries(rng, 2, 4, 64),
        cache(rng, n, 1, 64, "f16"),
        cache(rng, n, 1, 64, "f16"),
        rng.permutation(n).astype(np.int32)[None, :],
        causal(2, n - 2),
        types=("f16", "f16"),
    )
    assert np.abs(attend(a) - meaning(a)).max() < 1e-5


SIZES = [(32, 32), (40, 40), (64, 64), (72, 80), (80, 72), (96, 128), (112, 112), (128, 64)]
SIZES += [(192, 128), (256, 256), (288, 320), (512, 512), (576, 512), (576, 32), (32, 576)]


@pytest.mark.parametrize("widths", SIZES, ids=str)
def test_any_head_size_on_every_instruction_set(widths: tuple[int, int]) -> None:
    """K and V of different sizes; few queries, and many."""
    rng = np.random.default_rng(sum(widths))
    types = [("f16", "f16"), ("f32", "bf16")]
    if all(n % 32 == 0 for n in widths):
        types += [("q8_0", "q8_0"), ("q4_0", "f16")]
    for t in types:
        for n_tokens in (1, 7):
            a = make(rng, t, (4, 2), widths, n_tokens, 66, 128, scale=widths[0] ** -0.5)
            got = attend(a)
            assert np.abs(got - meaning(a)).max() < 1e-5 * np.abs(a.values[1]).max(), (t, n_tokens)
            for isa in isas():
                assert np.array_equal(attend(a, isa), got), (isa, t, n_tokens)


def test_a_head_that_is_not_whole_blocks_or_an_unknown_type_is_refused() -> None:
    rng = np.random.default_rng(8)
    a = make(rng, ("q8_0", "f16"), (2, 1), (64, 64), 3, 20, 64)
    row = row_of("flash_attn", "kv", "kv")
    for type_, ne0 in (("q8_0", 48), ("q2_K", 64), ("i32", 64), ("x8", 64)):
        case = a.whole()
        case.srcs[1].type, case.srcs[1].ne = BY_NAME[type_], (ne0, *case.srcs[1].ne[1:])
        case.srcs[0].ne = (ne0, *case.srcs[0].ne[1:])
        with pytest.raises(KernelError):
            run(row.index, case)
