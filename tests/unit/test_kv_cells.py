"""The cache's books: which cells are chosen, what a query sees, what is given back."""

from __future__ import annotations

import numpy as np
import pytest

from llamapy.base.errors import ContextError, UsageError
from llamapy.base.types import F16
from llamapy.devices.cpu.buffers import HOST, HostBuffer
from llamapy.kv.api import CacheShape, Ubatch
from llamapy.kv.cells import Cells
from llamapy.kv.unified import UnifiedCache


class Host:
    default_buft = HOST

    def alloc(self, buft, n_bytes, usage):
        return HostBuffer(buft, n_bytes, usage)


def ubatch(pos: list[int], seqs: list[tuple[int, ...]] | int = 0) -> Ubatch:
    rows = tuple(seqs) if isinstance(seqs, list) else ((seqs,),) * len(pos)
    none = np.empty(0, np.int32)
    return Ubatch(np.zeros(len(pos), np.int32), np.array(pos, np.int32), rows, none, none)


def cache(
    n_ctx=512, n_seq_max=2, n_ubatch=16, n_swa=0, is_swa=(False, False), **shape
) -> UnifiedCache:
    of = {"n_head_kv": (2, 1), "n_embd_head_k": (32, 32), "n_embd_head_v": (32, 32)} | shape
    shape = CacheShape(is_swa=is_swa, n_swa=n_swa, **of)
    return UnifiedCache(
        shape, lambda il: Host(), n_ctx=n_ctx, n_seq_max=n_seq_max, n_ubatch=n_ubatch,
        type_k=F16, type_v=F16,
    )  # fmt: skip


def run(kv: UnifiedCache, u: Ubatch):
    step = kv.begin(u)
    step.apply()
    return step


def test_a_causal_query_sees_what_is_before_it_and_itself():
    kv = cache()
    view = run(kv, ubatch([0, 1, 2])).views[0]
    assert view.rows.tolist() == [0, 1, 2]
    assert view.idx.shape == (1, 256)
    assert view.idx[0, :4].tolist() == [0, 1, 2, -1]
    assert view.range.tolist() == [[0, 0, 1, 0], [0, 0, 2, 1], [0, 0, 3, 2]]


def test_lists_follow_positions_wherever_the_cells_lie():
    kv = cache()
    run(kv, ubatch([0, 0, 1, 1], [(0,), (1,), (0,), (1,)]))
    view = run(kv, ubatch([2, 2], [(1,), (0,)])).views[0]
    assert view.idx[0, :3].tolist() == [1, 3, 4]  # sequence 1 stands first in the ubatch
    assert view.idx[1, :3].tolist() == [0, 2, 5]
    assert view.range[:, 0].tolist() == [0, 1]


def test_freed_cells_are_taken_again_and_the_order_stays_by_position():
    kv = cache()
    run(kv, ubatch([0, 1], 0))
    run(kv, ubatch([0, 1, 2], 1))
    assert kv.seq_rm(0, 0, -1)
    view = run(kv, ubatch([3, 4, 5], 1)).views[0]
    assert view.rows.tolist() == [0, 1, 5]
    assert view.idx[0, :7].tolist() == [2, 3, 4, 0, 1, 5, -1]


def test_revert_gives_the_cells_back():
    kv = cache()
    run(kv, ubatch([0, 1]))
    step = run(kv, ubatch([2, 3]))
    step.revert()
    assert kv.pos_max(0) == 1
    assert run(kv, ubatch([2])).views[0].rows.tolist() == [2]


def test_begin_changes_nothing():
    kv = cache()
    kv.begin(ubatch([0, 1, 2]))
    assert kv.pos_max(0) == -1


def test_no_room_is_an_error_with_the_way_out():
    kv = cache(n_ctx=256)
    run(kv, ubatch(list(range(256))))
    with pytest.raises(ContextError, match="--ctx-size"):
        kv.begin(ubatch([256]))


def test_copied_cells_are_shared_and_live_as_long_as_one_holds_them():
    kv = cache()
    run(kv, ubatch([0, 1, 2], 0))
    kv.seq_cp(0, 1, 0, -1)
    assert kv.pos_max(1) == 2
    kv.seq_rm(0, 0, -1)
    view = run(kv, ubatch([3], 1)).views[0]
    assert view.rows.tolist() == [3]
    assert view.idx[0, :4].tolist() == [0, 1, 2, 3]


def test_keep_drops_the_others():
    kv = cache()
    run(kv, ubatch([0], 0))
    run(kv, ubatch([0, 1], 1))
    kv.seq_keep(1)
    assert (kv.pos_max(0), kv.pos_max(1)) == (-1, 1)


def test_a_window_group_takes_cells_no_query_will_see():
    kv = cache(n_ctx=4096, n_seq_max=1, n_ubatch=16, n_swa=32, is_swa=(True, False))
    n = kv.layer(0).k.ne[1]
    assert n == 256  # 32 + 16, rounded up
    for p in range(0, 600, 12):
        view = run(kv, ubatch(list(range(p, p + 12)))).views[1]
        for i, pos in enumerate(range(p, p + 12)):
            _, lo, hi, own = view.range[i].tolist()
            base = pos - own
            assert base % 64 == 0
            assert (lo + base, hi + base) == (max(0, pos - 31), pos + 1)
            assert (view.idx[0, lo:hi] >= 0).all()


def test_a_window_list_stops_growing():
    cells = Cells(1024, 1, n_swa=512)
    sizes = [cells.list_length(p, 1) for p in range(4000)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 768
    assert cells.list_length(299, 1) == 512


def test_a_window_refuses_to_go_back_to_what_it_forgot():
    kv = cache(n_ctx=1024, n_seq_max=1, n_ubatch=16, n_swa=32, is_swa=(True, False))
    for p in range(0, 512, 16):
        run(kv, ubatch(list(range(p, p + 16))))
    assert not kv.seq_rm(0, 100, -1)
    assert kv.pos_max(0) == 511
    assert kv.seq_rm(0, 500, -1)
    assert kv.pos_max(0) == 499


def test_a_window_forgets_the_oldest_first_and_knows_how_far_back_it_can_go():
    kv = cache(n_ctx=1024, n_seq_max=1, n_ubatch=200, n_swa=32, is_swa=(True, False))
    n_cells = kv.layer(0).k.ne[1]
    run(kv, ubatch(list(range(200))))
    for p in range(200, 600):
        run(kv, ubatch([p]))
    oldest = 600 - n_cells
    assert sorted(kv._groups[1].held(0)) == list(range(oldest, 600))
    assert not kv.seq_rm(0, oldest + 30, -1)  # the next query would see oldest - 1
    assert kv.pos_max(0) == 599
    assert kv.seq_rm(0, oldest + 31, -1)


def test_a_window_counts_from_the_position_that_is_next():
    kv = cache(n_ctx=1024, n_seq_max=1, n_ubatch=1, n_swa=32, is_swa=(True, False))
    for p in range(600):
        run(kv, ubatch([p]))
    assert kv.seq_rm(0, 300, 599)  # the next query is at 600 still
    assert not kv.seq_rm(0, 599, -1)  # it would be at 300, and see 269 to 299
    assert kv.pos_max(0) == 599


def test_a_window_copies_no_prefix_whose_end_it_forgot():
    kv = cache(n_ctx=1024, n_seq_max=2, n_ubatch=1, n_swa=32, is_swa=(True, False))
    for p in range(600):
        run(kv, ubatch([p]))
    with pytest.raises(UsageError, match="forgotten"):
        kv.seq_cp(0, 1, 0, 300)
    assert kv.pos_max(1) == -1
    kv.seq_cp(0, 1, 0, 600)
    assert kv.twins(1) == {0, 1}


def test_no_sequence_has_a_position_twice():
    kv = cache()
    run(kv, ubatch([0, 1, 2], 0))
    run(kv, ubatch([0, 1], 1))
    with pytest.raises(UsageError, match="position 0 of its own"):
        kv.seq_cp(0, 1, 0, -1)
    kv.seq_cp(0, 1, 2, -1)
    assert run(kv, ubatch([3], 1)).views[0].idx[0, :5].tolist() == [3, 4, 2, 5, -1]


@pytest.mark.parametrize("broken", [False, True])
def test_what_a_broken_run_wrote_over_is_forgotten(broken):
    kv = cache(n_ctx=1024, n_seq_max=1, n_ubatch=16, n_swa=32, is_swa=(True, False))
    for p in range(0, 512, 16):
        run(kv, ubatch(list(range(p, p + 16))))
    if broken:  # the cells of the oldest positions, 256 to 271, were written to
        run(kv, ubatch(list(range(512, 528)))).revert()
    assert kv.pos_max(0) == 511
    assert kv.seq_rm(0, 290, -1) is not broken  # the next query would see 259 to 289


def test_layers_lie_in_one_buffer_without_overlap():
    kv = cache(is_swa=(True, False), n_swa=32)
    tensors = [t for il in (0, 1) for t in (kv.layer(il).k, kv.layer(il).v)]
    spans = sorted((t.offset_bytes, t.offset_bytes + t.n_bytes) for t in tensors)
    assert len({id(t.buffer) for t in tensors}) == 1
    assert all(a[1] <= b[0] for a, b in zip(spans, spans[1:], strict=False))
    assert spans[-1][1] <= kv.n_bytes


@pytest.mark.parametrize("n_swa", [0, 40])
def test_worst_sizes_bound_every_step(n_swa):
    kv = cache(n_ctx=700, n_seq_max=2, n_swa=n_swa, is_swa=(bool(n_swa), False))
    worst = kv.worst_sizes(16, 1)
    for p in range(0, 600, 16):
        sizes = run(kv, ubatch(list(range(p, p + 16)))).sizes
        assert all(a <= b for a, b in zip(sizes, worst, strict=True))


def seen(view) -> list[set[int]]:
    """Cells that each token sees."""
    rows = [view.idx[at, lo:hi].tolist() for at, lo, hi, _ in view.range.tolist()]
    return [set(cells) - {-1} for cells in rows]


def test_without_order_a_query_sees_all_of_its_sequence():
    kv = cache(causal=False)
    assert kv.cut == "whole"
    run(kv, ubatch([0], 1))
    kv.seq_rm(1, 0, -1)
    view = run(kv, ubatch([0, 0, 1, 1, 2], [(0,), (1,), (0,), (1,), (0,)])).views[0]
    assert seen(view) == [{0, 2, 4}, {1, 3}] * 2 + [{0, 2, 4}]
    assert view.range[:, 3].tolist() == [0, 0, 1, 1, 2]


def test_without_order_a_sequence_does_not_go_on():
    kv = cache(causal=False)
    run(kv, ubatch([0, 1]))
    with pytest.raises(UsageError, match="sequence 0 has tokens already"):
        kv.begin(ubatch([2]))
    assert kv.pos_max(0) == 1
    assert kv.seq_rm(0, 0, -1)
    assert seen(run(kv, ubatch([0, 1, 2])).views[0]) == [{0, 1, 2}] * 3


@pytest.mark.parametrize("n_swa", [6, 7])
def test_a_symmetric_window_reaches_as_far_to_either_side(n_swa):
    kv = cache(causal=False, window="symmetric", n_swa=n_swa, is_swa=(True, False))
    views = run(kv, ubatch(list(range(200)))).views
    assert seen(views[1]) == [
        set(range(max(0, p - n_swa // 2), min(200, p + n_swa // 2 + 1))) for p in range(200)
    ]
    assert seen(views[0]) == [set(range(200))] * 200


def test_without_order_nothing_is_forgotten():
    kv = cache(n_ctx=512, causal=False, window="symmetric", n_swa=4, is_swa=(True, False))
    run(kv, ubatch(list(range(300)), 0))
    run(kv, ubatch(list(range(200)), 1))
    assert [len(g.held(0)) for g in kv._groups] == [300, 300]
    assert kv.seq_rm(1, 0, -1)
    with pytest.raises(ContextError):
        kv.begin(ubatch(list(range(300)), 1))


@pytest.mark.parametrize("n_ubatch", [1, 12, 16])
def test_a_chunk_starts_anew(n_ubatch):
    kv = cache(n_ctx=4096, n_seq_max=1, n_swa=100, is_swa=(True, False), window="chunked")
    assert kv.layer(0).k.ne[1] == 256  # 100 + 16, rounded up
    for p in range(0, 600, n_ubatch):
        step = run(kv, ubatch(list(range(p, p + n_ubatch))))
        view = step.views[1]
        pos = kv._groups[1].pos
        for i, cells in enumerate(seen(view)):
            q = p + i
            assert sorted(pos[list(cells)]) == list(range(q // 100 * 100, q + 1))
        worst = kv.worst_sizes(n_ubatch, 1)
        assert all(a <= b for a, b in zip(step.sizes, worst, strict=True))


def test_a_chunk_can_be_gone_back_to_while_it_is_held():
    kv = cache(n_ctx=4096, n_seq_max=1, n_ubatch=1, n_swa=100, is_swa=(True, False),
               window="chunked")  # fmt: skip
    for p in range(500):  # 256 cells: 244 and later are held
        run(kv, ubatch([p]))
    assert not kv.seq_rm(0, 250, -1)  # the next query would see 200 and later
    assert kv.seq_rm(0, 300, -1)
    assert not kv.seq_rm(0, 299, -1)


def test_v_may_be_a_part_of_k():
    kv = cache(n_embd_head_k=(64, 64), n_embd_head_v=(32, 64), v_is_k=(True, False))
    k, v, _ = kv.layer(0)
    assert (v.view_src, v.ne, v.nb) == (k, (32, 512, 2, 1), k.nb)
    assert v.home() == k.home()
    other = kv.layer(1)
    assert kv.n_bytes == k.n_bytes + other.k.n_bytes + other.v.n_bytes


def test_layers_share_an_earlier_ones_cache_or_have_none():
    three = {"n_embd_head_k": (32, 64, 32), "n_embd_head_v": (16, 64, 8), "is_swa": (False,) * 3}
    kv = cache(n_head_kv=(2, 0, 2), share=(0, 1, 0), **three)
    assert kv.layer(2) is kv.layer(0)
    assert (kv.layer(0).k.ne[0], kv.layer(0).v.ne[0]) == (32, 16)
    with pytest.raises(LookupError):
        kv.layer(1)
    assert kv.n_bytes == kv.layer(0).k.n_bytes + kv.layer(0).v.n_bytes


@pytest.mark.parametrize(
    "bad",
    [
        {"share": (0, 2)},
        {"share": (1, 1)},
        {"window": "round"},
        {"window": "symmetric"},
        {"v_is_k": (True,)},
        {"is_swa": (True, False)},
    ],
    ids=str,
)
def test_a_shape_that_makes_no_sense_is_refused(bad):
    with pytest.raises(ValueError):
        cache(**bad)
