"""Plans of random graphs are held against a checker that knows nothing of the allocator, and the
checker against plans that are wrong on purpose."""

import random

import pytest

from llamapy.base.types import F32, I32
from llamapy.devices.null import NullBuffer, NullDevice
from llamapy.graph import pack as packing
from llamapy.graph.alloc import GraphAllocator
from llamapy.graph.cgraph import CGraph
from llamapy.graph.lives import NEVER, VIEWS, kept, lives
from llamapy.graph.ops import make, permute, reshape, view
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor
from llamapy.graph.verify import clashes, faults

WIDTHS = (4, 8, 32)
WEIGHTS = NullDevice("weights").default_buft


def weight(*ne: int) -> Tensor:
    a, b = (*ne, 1)[:2]
    t = Tensor(F32, (a, b, 1, 1), name="w")
    t.buffer = NullBuffer([], WEIGHTS, t.n_bytes, "weights")
    return t


def grow(rng: random.Random, x: Tensor, others: list[Tensor]) -> Tensor:
    """One more node (or view) on `x`."""
    same = [o for o in others if o.ne == x.ne]
    kind = rng.randrange(10)
    if kind < 3 and same:
        return make(rng.choice(("add", "mul", "sub", "swiglu")), x, rng.choice(same))
    if kind == 3:
        return make("add", x, weight(x.ne[0]))
    if kind == 4:
        n = rng.choice(WIDTHS)
        addend = [o for o in others if o.ne == (n, *x.ne[1:])]
        extra = [rng.choice(addend)] if addend and rng.random() < 0.5 else []
        return make("mul_mat", weight(x.ne[0], n), x, *extra)
    if kind == 5 and x.is_contiguous and x.ne[2] == 1:
        return reshape(x, x.ne[0] // 2, 2, x.ne[1]) if rng.random() < 0.5 else reshape(x, *x.ne)
    if kind == 6 and x.ne[1] > 1:
        rows = rng.randint(1, x.ne[1])
        first = rng.randint(0, x.ne[1] - rows)
        return view(x, (x.ne[0], rows, *x.ne[2:]), x.nb[1:], first * x.nb[1])
    if kind == 7:
        return permute(x, 0, 2, 1, 3)
    if kind == 8:
        return make("cpy", x, type="f32")
    return make(rng.choice(("silu", "relu", "scale")), x, scale=1.0, bias=0.0)


def random_graph(seed: int) -> CGraph:
    rng = random.Random(seed)
    made: list[Tensor] = []
    for i in range(rng.randint(1, 3)):
        ne = (rng.choice(WIDTHS), rng.randint(1, 6), 1, 1)
        made.append(Tensor(F32, ne, name=f"in{i}", flags=INPUT))
    cache = weight(8, 32)
    g = CGraph()
    for _ in range(rng.randint(3, 40)):
        x = rng.choice(made[-6:])
        made.append(grow(rng, x, made[-8:]))
        if rng.random() < 0.1:
            made[-1].flags |= OUTPUT
        if rng.random() < 0.1 and made[-1].ne[0] == 8 and made[-1].ne[2] == 1:
            ids = Tensor(I32, (made[-1].ne[1], 1, 1, 1), flags=INPUT)
            g.build_forward_expand(make("set_rows", cache, made[-1], ids))
            made.append(view(cache, (8, 4), ()))
        if rng.random() < 0.2:
            g.build_forward_expand(made[-1])
    g.build_forward_expand(made[-1])
    return g


def placed(g: CGraph, *, pools: int = 1, max_bytes: int = NEVER, alignment: int = 16) -> None:
    devices = [NullDevice(f"d{i}", alignment=alignment, max_bytes=max_bytes) for i in range(pools)]
    bufts = [d.default_buft for d in devices]
    pool_of = {t: i % pools for i, t in enumerate((*g.leafs, *g.nodes))}
    allocator = GraphAllocator(list(zip(devices, bufts, strict=True)))
    allocator.alloc(lives(g.nodes, g.leafs, kept(g), bufts, pool_of))


@pytest.mark.parametrize("way", ["by_size", "running", "pack"])
@pytest.mark.parametrize("pools", [1, 2])
def test_plans_of_random_graphs_hold(way: str, pools: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if way != "pack":
        plan = getattr(packing, way)
        monkeypatch.setattr(
            "llamapy.graph.alloc.pack",
            lambda lived, pool, n: plan(lived, packing.members(lived, pool), n),
        )
    n_nodes = 0
    for seed in range(200):
        g = random_graph(seed)
        placed(g, pools=pools, max_bytes=(NEVER, 512)[seed % 2])
        assert clashes(g.nodes, g.leafs, ()) == [], seed
        assert faults(g.nodes, g.leafs) == [], seed
        n_nodes += len(g.nodes)
    assert n_nodes > 2000


def test_random_graphs_reuse_memory_in_place_and_by_time() -> None:
    taken = saved = 0
    for seed in range(100):
        g = random_graph(seed)
        device = NullDevice(alignment=16)
        lived = lives(g.nodes, g.leafs, kept(g), [device.default_buft], {})
        taken += sum(i >= 0 for i in lived.takes)
        saved += sum(lived.size) > packing.pack(lived, 0, NEVER).n_bytes
    assert taken > 100
    assert saved > 80


def test_the_checker_finds_a_place_given_away_too_early() -> None:
    """Lives cut short: where that lets another tensor onto the place, the checker says so."""
    found = 0
    for seed in range(150):
        g = random_graph(seed)
        device = NullDevice(alignment=16)
        lived = lives(g.nodes, g.leafs, kept(g), [device.default_buft], {})
        takers = set(lived.takes)
        long = [
            k
            for k, (born, dies) in enumerate(zip(lived.born, lived.dies, strict=True))
            if dies - born > 1 and k not in takers
        ]
        for k in long:
            last = lived.dies[k]
            lived.dies[k] = lived.born[k]
            allocator = GraphAllocator([(device, device.default_buft)])
            allocator.alloc(lived)
            found += bool(clashes(g.nodes, g.leafs))
            lived.dies[k] = last
    assert found > 50


def test_the_checker_finds_an_unlawful_takeover() -> None:
    a = Tensor(F32, (8, 1, 1, 1), name="a", flags=INPUT)
    m = make("cpy", a, type="f32")
    g = CGraph()
    g.build_forward_expand(make("add", make("silu", m), m))
    placed(g)
    silu = g.nodes[1]
    assert clashes(g.nodes, g.leafs) == []
    silu.offset_bytes = m.offset_bytes  # m is still to be read by the add
    assert (silu.name, m.name) in clashes(g.nodes, g.leafs)


def test_the_checker_knows_that_a_matmul_may_not_overwrite_its_operand() -> None:
    a = Tensor(F32, (8, 2, 1, 1), name="a", flags=INPUT)
    m = make("cpy", a, type="f32")
    out = make("mul_mat", weight(8, 8), m)
    g = CGraph()
    g.build_forward_expand(out)
    placed(g)
    out.offset_bytes = m.offset_bytes
    assert clashes(g.nodes, g.leafs) == [(out.name, m.name)]


def test_faults_are_named() -> None:
    a = Tensor(F32, (8, 2, 1, 1), name="a", flags=INPUT)
    m, n = make("cpy", a, type="f32"), make("silu", a)
    out = make("add", m, n)
    m.name, n.name, out.name = "m", "n", "out"
    assert faults([out, m, n], [a]) == [
        "out: reads m, which no earlier node computes",
        "out: reads n, which no earlier node computes",
    ]
    n.ne = (8, 1, 1, 1)
    assert faults([m, n], [a]) == ["n: silu gives f32[8, 2, 1, 1], not f32[8, 1, 1, 1]"]
    over = view(m, (8, 2), (), 32)
    over.name = "over"
    assert faults([m, over], [a]) == ["over: bytes 32 to 96 of m's 64"]
    m.buffer = NullBuffer([], WEIGHTS, 64, "compute")
    m.offset_bytes = 32
    assert "m: bytes 32 to 96 of a buffer of 64" in faults([m], [a])
    bad = Tensor(F32, (8, 2, 1, 1), op="scale", src=(a,), name="bad")
    assert faults([bad], [a]) == ["bad: scale lacks parameter scale"]


def test_the_checker_reads_through_views_that_were_left_out() -> None:
    """A device may hand back its nodes without the views among them."""
    for seed in range(50):
        g = random_graph(seed)
        placed(g)
        executed = [t for t in g.nodes if t.op not in VIEWS]
        assert clashes(executed, g.leafs, kept(g)) == []
        assert faults(executed, g.leafs) == []
