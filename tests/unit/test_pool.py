"""The pool of a running allocator: best fit, the end of a chunk, chunks, merging, high water."""

from llamapy.graph.pool import MAX_CHUNKS, UNBOUNDED, Pool


def test_worked_example_peaks_at_16_bytes() -> None:
    """relu(Wx + b) without in-place reuse: the third result takes the first one's place."""
    pool = Pool()
    wx = pool.alloc(8)
    added = pool.alloc(8)
    pool.free(*wx, 8)
    relu = pool.alloc(8)
    assert (wx, added, relu) == ((0, 0), (0, 8), (0, 0))
    assert pool.peaks == [16]


def test_best_fit_leaves_the_least() -> None:
    pool = Pool()
    spots = [pool.alloc(n) for n in (64, 8, 32, 8, 48, 8)]
    for i, n in ((0, 64), (2, 32), (4, 48)):
        pool.free(*spots[i], n)
    assert pool.alloc(40) == spots[4]
    assert pool.alloc(32) == spots[2]
    assert pool.alloc(16) == spots[0]  # 8 bytes are left of the third: too few
    assert pool.peaks == [168]


def test_what_fits_between_is_not_taken_from_the_end() -> None:
    pool = Pool()
    a, b, c = pool.alloc(16), pool.alloc(16), pool.alloc(16)
    pool.free(*a, 16)
    pool.free(*c, 16)  # the end is free too, and would not grow either
    assert pool.alloc(16) == a
    assert pool.alloc(16) == c
    assert b == (0, 16)


def test_free_merges_with_both_neighbours() -> None:
    pool = Pool()
    a, b, c, d = (pool.alloc(16) for _ in range(4))
    pool.free(*a, 16)
    pool.free(*c, 16)
    pool.free(*b, 16)
    assert pool.chunks[0].offsets == [0, 64]
    assert pool.alloc(48) == (0, 0)
    pool.free(*d, 16)
    assert pool.chunks[0].offsets == [48]
    assert pool.peaks == [64]


def test_the_end_of_a_chunk_grows_the_high_water_mark_only() -> None:
    pool = Pool()
    a = pool.alloc(32)
    pool.free(*a, 32)
    assert pool.alloc(16) == (0, 0)
    assert pool.peaks == [32]
    assert pool.alloc(24) == (0, 16)
    assert pool.peaks == [40]


def test_a_full_chunk_opens_another() -> None:
    pool = Pool(64)
    assert [pool.alloc(40), pool.alloc(40), pool.alloc(24)] == [(0, 0), (1, 0), (0, 40)]
    assert pool.peaks == [64, 40]


def test_a_tensor_over_the_maximum_gets_a_chunk_of_its_size() -> None:
    pool = Pool(64)
    assert pool.alloc(100) == (0, 0)
    assert pool.alloc(8) == (1, 0)
    assert pool.peaks == [100, 8]


def test_ends_that_need_not_grow_are_preferred() -> None:
    pool = Pool(64)
    a, b, c = pool.alloc(48), pool.alloc(64), pool.alloc(64)
    assert (a, b, c) == ((0, 0), (1, 0), (2, 0))
    pool.free(*b, 64)
    pool.free(*c, 64)
    assert pool.alloc(16) == b  # chunk 0 would grow by 16, chunks 1 and 2 not at all
    pool.free(*b, 16)
    assert pool.alloc(60) == b
    assert pool.alloc(16) == c  # chunk 1 has only 4 left, chunk 0 would still grow
    assert pool.peaks == [48, 64, 64]


def test_the_last_chunk_has_no_limit() -> None:
    pool = Pool(8)
    spots = [pool.alloc(8) for _ in range(40)]
    assert max(chunk for chunk, _ in spots) == MAX_CHUNKS - 1
    assert pool.peaks == [8] * (MAX_CHUNKS - 1) + [8 * (40 - MAX_CHUNKS + 1)]
    assert pool.chunks[-1].sizes[-1] > UNBOUNDED // 2
