"""Graph: order, use counts, names, leafs, forward-select."""

from llamapy.base.types import F32, I32
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import make, reshape
from llamapy.graph.tensor import COMPUTE, INPUT, PARAM, Tensor


def leaf(name: str = "", *ne: int, flags: int = 0) -> Tensor:
    a, b = (*ne, 4, 4)[:2] if ne else (4, 4)
    return Tensor(F32, (a, b, 1, 1), name=name, flags=flags)


def test_sources_come_first_and_left_to_right() -> None:
    a, b, c = leaf("a"), leaf("b"), leaf("c")
    left, right = make("add", a, b), make("mul", b, c)
    out = make("sub", left, right)
    g = CGraph()
    g.build_forward_expand(out)
    assert g.nodes == [left, right, out]
    assert g.leafs == [a, b, c]


def test_a_shared_subexpression_stands_once_and_its_uses_add_up() -> None:
    a = leaf("a")
    s = make("silu", a)
    out = make("add", make("mul", s, s), s)
    g = CGraph()
    g.build_forward_expand(out)
    assert [t.op for t in g.nodes] == ["silu", "mul", "add"]
    assert g.uses[s] == 3 and g.uses[a] == 1 and g.uses[out] == 0


def test_uses_belong_to_the_graph() -> None:
    a = leaf("a")
    s = make("silu", a)
    one, two = CGraph(), CGraph()
    one.build_forward_expand(make("relu", s))
    two.build_forward_expand(make("add", s, s))
    assert (one.uses[s], two.uses[s]) == (1, 2)


def test_expanding_twice_adds_only_what_is_new() -> None:
    a = leaf("a")
    s = make("silu", a)
    out = make("relu", s)
    g = CGraph()
    g.build_forward_expand(s)
    uid = g.uid
    g.build_forward_expand(out, s)
    assert g.nodes == [s, out]
    assert g.uses[s] == 1
    assert g.uid != uid and CGraph().uid != g.uid


def test_weights_and_inputs_are_leafs_views_are_nodes() -> None:
    w, x = leaf("w", flags=PARAM), leaf("x", flags=INPUT)
    out = reshape(make("mul_mat", w, x), 16)
    g = CGraph()
    g.build_forward_expand(out)
    assert g.leafs == [w, x]
    assert [t.op for t in g.nodes] == ["mul_mat", "reshape"]


def test_the_unnamed_get_names_by_place() -> None:
    a, b = leaf(), leaf("b")
    mid = make("add", a, b)
    mid.name = "mid"
    g = CGraph()
    g.build_forward_expand(make("silu", mid))
    assert [t.name for t in g.leafs] == ["leaf_0", "b"]
    assert [t.name for t in g.nodes] == ["mid", "node_1"]


def test_a_write_added_first_stands_before_the_read() -> None:
    cache, rows, ids = leaf("cache"), leaf("rows"), Tensor(I32, (4, 1, 1, 1), name="ids")
    g = CGraph()
    store = make("set_rows", cache, rows, ids)
    g.build_forward_expand(store)
    read = make("silu", reshape(cache, 16))
    g.build_forward_expand(read)
    assert g.nodes.index(store) < g.nodes.index(read)


def test_a_chain_deeper_than_the_python_stack() -> None:
    x = leaf("x")
    for _ in range(20000):
        x = make("silu", x)
    g = CGraph()
    g.build_forward_expand(x)
    assert len(g.nodes) == 20000
    assert g.nodes[-1] is x


def test_select_sorts_all_and_computes_one() -> None:
    a, b = leaf("a", flags=INPUT), leaf("b", flags=INPUT)
    shared = make("add", a, a)
    one, two = make("silu", shared), make("relu", make("mul", shared, b))
    g = CGraph()
    assert g.build_forward_select([one, two], 0) is one
    assert g.leafs == [a, b]
    assert len(g.nodes) == 4
    assert [t.op for t in g.nodes if t.flags & COMPUTE] == ["add", "silu"]


def test_what_select_left_out_is_computed_once_it_is_needed() -> None:
    a = leaf("a")
    one, two = make("silu", a), make("relu", make("mul", a, a))
    g = CGraph()
    g.build_forward_select([one, two], 0)
    g.build_forward_expand(make("exp", two))
    assert all(t.flags & COMPUTE for t in g.nodes)
