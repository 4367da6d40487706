"""The graph allocator: lives, in-place reuse, outputs, inputs, external memory, several buffers,
reserve / needs_realloc / alloc."""

import pytest

from llamapy.base.errors import LlamapyError
from llamapy.base.types import F32, I32
from llamapy.devices.null import NullBuffer, NullDevice
from llamapy.graph.alloc import GraphAllocator
from llamapy.graph.cgraph import CGraph
from llamapy.graph.lives import NEVER, START, Lives, kept, lives
from llamapy.graph.ops import make, permute, reshape, view
from llamapy.graph.pack import by_size, members, most_alive, pack, running
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor
from llamapy.graph.verify import check


def leaf(name: str, *ne: int, flags: int = 0, device: NullDevice | None = None) -> Tensor:
    a, b = (*ne, 1, 1)[:2]
    t = Tensor(F32, (a, b, 1, 1), name=name, flags=flags)
    if device is not None:
        t.buffer = NullBuffer([], device.default_buft, t.n_bytes, "weights")
    return t


def named(name: str, t: Tensor) -> Tensor:
    t.name = name
    return t


class Planned:
    """A graph from outputs, placed on one null device, and checked."""

    def __init__(self, *outputs: Tensor, alignment: int = 8, max_bytes: int = NEVER) -> None:
        self.graph = CGraph()
        self.graph.build_forward_expand(*outputs)
        self.device = NullDevice(alignment=alignment, max_bytes=max_bytes)
        buft = self.device.default_buft
        keep = kept(self.graph)
        self.lives = lives(self.graph.nodes, self.graph.leafs, keep, [buft], {})
        self.allocator = GraphAllocator([(self.device, buft)])
        self.allocator.alloc(self.lives)
        check(self.graph.nodes, self.graph.leafs, keep)

    def taker_of(self, t: Tensor) -> Tensor | None:
        i = self.lives.tensors.index(t)
        found = [k for k, taken in enumerate(self.lives.takes) if taken == i]
        return self.lives.tensors[found[0]] if found else None

    def span(self, t: Tensor) -> tuple[int, int]:
        return self.lives.born[self.lives.tensors.index(t)], self.lives.dies[
            self.lives.tensors.index(t)
        ]


DEVICE = NullDevice()


def test_worked_example_relu_wx_b_takes_16_bytes() -> None:
    """Wx, + b and relu with results of 8 bytes: 16 without in-place reuse, 8 with it."""
    w, b = leaf("w", 2, 2, device=DEVICE), leaf("b", 2, device=DEVICE)
    x = leaf("x", 2, device=DEVICE)
    out = make("relu", make("add", make("mul_mat", w, x), b))
    p = Planned(out)
    assert p.allocator.n_bytes() == [8]
    p.lives.takes[:] = [-1] * 3
    entries = members(p.lives, 0)
    for packed in (running(p.lives, entries, NEVER), by_size(p.lives, entries, NEVER)):
        assert packed.peaks == [16]
        assert packed.spots[0] == packed.spots[2] != packed.spots[1]


def test_an_entry_lives_from_its_node_to_its_last_reader() -> None:
    a = leaf("a", 4, flags=INPUT)
    m = make("softcap", a, cap=1.0)
    n = make("cpy", m, type="f32")
    out = make("add", make("cpy", n, type="f32"), m)
    p = Planned(out)
    assert p.span(a) == (START, 0)
    assert p.span(m) == (0, 3)
    assert p.span(n) == (1, 2)
    assert p.span(out) == (3, NEVER)


@pytest.mark.parametrize("op", ["silu", "relu", "exp"])
def test_unary_takes_over_its_source(op: str) -> None:
    m = make("cpy", leaf("a", 4, device=DEVICE), type="f32")
    out = make(op, m)
    p = Planned(out)
    assert p.taker_of(m) is out
    assert out.home() == m.home()


def test_the_second_source_is_taken_when_the_first_cannot_be() -> None:
    a, b = leaf("a", 4, device=DEVICE), make("cpy", leaf("b", 4, device=DEVICE), type="f32")
    out = make("add", a, b)
    assert Planned(out).taker_of(b) is out


def test_a_source_that_is_repeated_is_not_taken() -> None:
    a = leaf("a", 4, 3, device=DEVICE)
    row = make("cpy", leaf("b", 4, device=DEVICE), type="f32")
    out = make("add", a, row)
    assert Planned(out).taker_of(row) is None


def test_not_in_place_conditions() -> None:
    src = leaf("a", 4, 4, device=DEVICE)
    twice = make("cpy", src, type="f32")
    assert Planned(make("add", twice, twice)).taker_of(twice) is None

    later = make("cpy", src, type="f32")
    assert Planned(make("mul", make("silu", later), later)).taker_of(later) is None

    output = make("cpy", src, type="f32")
    output.flags |= OUTPUT
    assert Planned(make("silu", output)).taker_of(output) is None

    turned = make("cpy", src, type="f32")
    assert Planned(make("silu", permute(turned, 1, 0, 2, 3))).taker_of(turned) is None

    external = leaf("w", 4, 4, device=DEVICE)
    out = make("silu", external)
    p = Planned(out)
    assert external not in p.lives.tensors
    assert out.buffer is not external.buffer


def test_matmul_takes_its_addend_and_never_its_operands() -> None:
    w = leaf("w", 4, 4, device=DEVICE)
    x = make("cpy", leaf("a", 4, 2, device=DEVICE), type="f32")
    residual = make("cpy", leaf("b", 4, 2, device=DEVICE), type="f32")
    out = make("mul_mat", w, x, residual)
    p = Planned(out)
    assert p.taker_of(residual) is out
    same = make("cpy", leaf("a", 4, 2, device=DEVICE), type="f32")
    assert Planned(make("mul_mat", w, same, same)).taker_of(same) is None


def test_through_a_view_from_the_first_byte() -> None:
    m = make("cpy", leaf("a", 4, 4, device=DEVICE), type="f32")
    out = make("silu", reshape(m, 16))
    p = Planned(out)
    assert p.taker_of(m) is out
    assert out.home() == m.home()


def test_not_through_a_view_further_on_or_with_another_reader() -> None:
    m = make("cpy", leaf("a", 4, 4, device=DEVICE), type="f32")
    assert Planned(make("silu", view(m, (4, 2), (), 16))).taker_of(m) is None
    n = make("cpy", leaf("a", 4, 4, device=DEVICE), type="f32")
    first = make("silu", view(n, (4, 2), ()))
    last = make("relu", view(n, (4, 2), (), 32))
    p = Planned(make("mul", first, last))
    assert p.taker_of(n) is None  # `first` comes while the other view is still to be read


def test_surplus_of_a_place_taken_through_a_view_goes_back() -> None:
    lived = Lives(
        tensors=[leaf(n, 4) for n in "abc"],
        size=[64, 16, 48],
        pool=[0, 0, 0],
        born=[0, 1, 2],
        dies=[1, 3, NEVER],
        takes=[-1, 0, -1],
    )
    packed = running(lived, members(lived, 0), NEVER)
    assert packed.spots == {0: (0, 0), 1: (0, 0), 2: (0, 16)}
    assert packed.peaks == [64]


def test_a_root_lives_as_long_as_its_views_are_read() -> None:
    m = make("cpy", leaf("a", 4, 4, device=DEVICE), type="f32")
    seen = view(m, (4, 2), (), 32)
    between = make("cpy", make("cpy", m, type="f32"), type="f32")
    out = make("add", view(between, (4, 2), ()), seen)
    p = Planned(out)
    assert p.span(m)[1] == p.graph.nodes.index(out)


def test_an_output_seen_through_a_view_is_never_given_away() -> None:
    m = make("cpy", leaf("a", 4, 4, device=DEVICE), type="f32")
    seen = reshape(m, 16)
    seen.flags |= OUTPUT
    other = make("silu", make("cpy", m, type="f32"))
    p = Planned(seen, other)
    assert p.span(m)[1] == NEVER
    unread = reshape(make("cpy", leaf("a", 4, 4, device=DEVICE), type="f32"), 16)
    assert Planned(unread).span(unread.root)[1] == NEVER


def test_inputs_are_there_before_the_first_node() -> None:
    a, late = leaf("a", 64, flags=INPUT), leaf("late", 64, flags=INPUT)
    x = a
    for _ in range(4):
        x = make("cpy", x, type="f32")
    p = Planned(make("add", x, late))
    assert p.span(late) == (START, 4)
    for t in p.graph.nodes[:4]:
        assert t.offset_bytes != late.offset_bytes


def test_set_rows_takes_no_memory_and_stays_before_later_readers() -> None:
    cache = leaf("cache", 4, 8, device=DEVICE)
    rows, ids = leaf("rows", 4, 2, flags=INPUT), Tensor(I32, (2, 1, 1, 1), flags=INPUT)
    g = CGraph()
    store = make("set_rows", cache, rows, ids)
    g.build_forward_expand(store)
    out = make("cpy", view(cache, (4, 8), ()), type="f32")
    g.build_forward_expand(out)
    lived = lives(g.nodes, g.leafs, kept(g), [DEVICE.default_buft], {})
    assert lived.tensors == [rows, ids, out]
    assert store.home() == cache.home()


def test_empty_tensors_take_no_space_but_have_a_home() -> None:
    a = Tensor(F32, (4, 0, 1, 1), name="a", flags=INPUT)
    out = make("silu", a)
    p = Planned(out)
    assert p.lives.size == [0, 0]
    assert out.buffer is not None and a.buffer is not None
    assert p.allocator.n_bytes() == [8]


@pytest.mark.parametrize("alignment", [16, 64, 4096])
def test_offsets_are_aligned(alignment: int) -> None:
    xs = [make("cpy", leaf(f"a{i}", 5 + i, device=DEVICE), type="f32") for i in range(5)]
    p = Planned(*xs, alignment=alignment)
    assert all(x.offset_bytes % alignment == 0 for x in xs)
    sizes = [-(-4 * (5 + i) // alignment) * alignment for i in range(5)]
    assert p.allocator.n_bytes() == [sum(sizes)]


def test_a_buffer_type_with_a_maximum_gets_several_buffers() -> None:
    xs = [make("cpy", leaf(f"a{i}", 8, device=DEVICE), type="f32") for i in range(5)]
    p = Planned(*xs, max_bytes=64)
    assert [b.n_bytes for b in p.allocator.buffers[0]] == [64, 64, 32]
    places = {(id(x.buffer), x.offset_bytes) for x in xs}
    assert len(places) == 5


def two_layers(n: int) -> CGraph:
    x = leaf("x", n, flags=INPUT)
    for _ in range(2):
        x = make("add", make("cpy", make("cpy", x, type="f32"), type="f32"), x)
    g = CGraph()
    g.build_forward_expand(x)
    return g


def lived(g: CGraph, device: NullDevice) -> Lives:
    return lives(g.nodes, g.leafs, kept(g), [device.default_buft], {})


def test_reserve_then_alloc_opens_nothing() -> None:
    device = NullDevice()
    a = GraphAllocator([(device, device.default_buft)])
    planned = a.reserve(lived(two_layers(1000), device))
    assert planned == a.n_bytes() == [3 * 4032]
    opened = len(device.log)
    small = two_layers(10)
    need = lived(small, device)
    assert not a.needs_realloc(need)
    a.alloc(need, strict=True)
    assert len(device.log) == opened and a.n_grown == 0
    check(small.nodes, small.leafs)


def test_a_reserved_table_is_used_again_without_planning() -> None:
    device = NullDevice()
    a = GraphAllocator([(device, device.default_buft)])
    big = lived(two_layers(1000), device)
    a.reserve(big)
    assert a.plan(lived(two_layers(999), device)).lives is big
    assert a.plan(lived(two_layers(1100), device)).lives is not big


def test_growing_is_counted_and_refused_when_strict() -> None:
    device = NullDevice()
    a = GraphAllocator([(device, device.default_buft)])
    a.reserve(lived(two_layers(10), device))
    version = a.version
    need = lived(two_layers(1000), device)
    assert a.needs_realloc(need)
    with pytest.raises(LlamapyError, match="unforeseen reallocation: null 192 -> 12096 bytes"):
        a.alloc(need, strict=True)
    a.alloc(need)
    assert a.n_grown == 2 and a.version > version
    assert a.n_bytes() == [12096]
    assert sum(not b.freed for b in device.buffers) == 1
    a.free()
    assert all(b.freed for b in device.buffers)


def test_each_buffer_type_has_a_pool_of_its_own() -> None:
    one, two = NullDevice("one"), NullDevice("two", alignment=128)
    g = two_layers(8)
    bufts = [one.default_buft, two.default_buft]
    pool_of = {t: i % 2 for i, t in enumerate(g.nodes)}
    need = lives(g.nodes, g.leafs, kept(g), bufts, pool_of)
    a = GraphAllocator([(one, bufts[0]), (two, bufts[1])])
    a.alloc(need)
    assert all(t.buffer.type is bufts[pool_of.get(t, 0)] for t in (*g.nodes, *g.leafs))
    assert all(t.offset_bytes % 128 == 0 for t in g.nodes if pool_of[t])
    check(g.nodes, g.leafs)


@pytest.mark.parametrize(
    ("rows", "step_by_step", "largest_first", "least"),
    [
        ([(8, 0, 2), (16, 2, 6), (16, 6, 8)], 40, 32, 32),
        ([(32, 0, 2), (16, 1, 4), (24, 3, 6), (32, 5, 6)], 56, 72, 56),
    ],
)
def test_pack_takes_the_better_of_two_plans(
    rows: list[tuple[int, int, int]], step_by_step: int, largest_first: int, least: int
) -> None:
    """Rows are size, born, dies: neither way of choosing addresses is always the best."""
    n = len(rows)
    tensors = [leaf(str(i), 1) for i in range(n)]
    sizes, born, dies = ([r[i] for r in rows] for i in range(3))
    case = Lives(tensors, sizes, [0] * n, born, dies, [-1] * n)
    entries = members(case, 0)
    assert running(case, entries, NEVER).n_bytes == step_by_step
    assert by_size(case, entries, NEVER).n_bytes == largest_first
    assert pack(case, 0, NEVER).n_bytes == most_alive(case, entries) == least
