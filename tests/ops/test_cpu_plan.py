"""Lowering and preparing: nothing in a stage touches what another of its nodes writes, quantised
activations are made once, and the bits are those of the graph as built."""

from __future__ import annotations

import numpy as np
import pytest

from llamapy.base.types import BY_NAME, F32, I32
from llamapy.devices.cpu import CpuDevice
from llamapy.devices.cpu.lower import Kernels, lower
from llamapy.graph.cgraph import CGraph
from llamapy.graph.ops import make, reshape
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, PARAM, Tensor
from llamapy.runtime.lengths import measure

Q8_0 = BY_NAME["q8_0"]


@pytest.fixture
def cpu():
    device = CpuDevice(2)
    yield device
    device.close()


def weight(cpu: CpuDevice, ne: tuple[int, int], seed: int, kind=Q8_0) -> Tensor:
    """A random weight in a buffer of its own; Q8_0 blocks have a scale near 1/127."""
    t = Tensor(kind, (*ne, 1, 1), name=f"w{seed}", flags=PARAM)
    t.buffer = cpu.alloc(cpu.default_buft, t.n_bytes, "weights")
    rng = np.random.default_rng(seed)
    if kind is F32:
        t.buffer.write(0, rng.standard_normal(ne[0] * ne[1]).astype(np.float32))
        return t
    blocks = np.zeros(ne[0] * ne[1] // 32, [("d", "<f2"), ("q", "i1", 32)])
    blocks["d"] = rng.uniform(0.5, 1.0, len(blocks)) / 127
    blocks["q"] = rng.integers(-127, 128, (len(blocks), 32))
    t.buffer.write(0, blocks.view(np.uint8))
    return t


def layer(cpu: CpuDevice, n: int) -> tuple[Tensor, Tensor]:
    """x -> norm -> gate, up -> swiglu -> down + x, on n tokens of 64."""
    x = Tensor(F32, (64, n, 1, 1), name="x", flags=INPUT)
    h = make("rms_norm", x, weight(cpu, (64, 1), 1, F32), eps=1e-5)
    gate, up = (make("mul_mat", weight(cpu, (64, 96), s), h) for s in (2, 3))
    out = make("mul_mat", weight(cpu, (96, 64), 4), make("swiglu", gate, up), x)
    out.flags |= OUTPUT
    return x, out


def run(cpu: CpuDevice, x: Tensor, out: Tensor, values: np.ndarray) -> np.ndarray:
    graph = CGraph()
    graph.build_forward_expand(out)
    compiled = Scheduler([cpu]).compile(graph)
    x.buffer.write(x.offset_bytes, values)
    compiled.run()
    return np.frombuffer(out.buffer.read(out.offset_bytes, out.n_bytes), np.float32).copy()


def test_activations_are_quantised_once_and_folded_into_what_made_them(cpu):
    _, out = layer(cpu, 3)
    graph = CGraph()
    graph.build_forward_expand(out)
    ops = [t.op for t in cpu.prepare(graph.nodes)]
    assert ops == ["rms_norm_quant", "mul_mat", "mul_mat", "swiglu_quant", "mul_mat"]


def test_an_activation_that_others_read_stays(cpu):
    x = Tensor(F32, (64, 2, 1, 1), name="x", flags=INPUT)
    h = make("rms_norm", x, weight(cpu, (64, 1), 1, F32), eps=1e-5)
    a = make("mul_mat", weight(cpu, (64, 64), 2), h)
    out = make("add", a, h)
    graph = CGraph()
    graph.build_forward_expand(out)
    assert [t.op for t in cpu.prepare(graph.nodes)] == ["rms_norm", "quant_act", "mul_mat", "add"]


def test_what_is_read_outside_of_the_split_stays(cpu):
    _, out = layer(cpu, 3)
    graph = CGraph()
    graph.build_forward_expand(out)
    norm = graph.nodes[0]
    prepared = cpu.prepare(graph.nodes, {id(norm)})
    assert [t.op for t in prepared][:2] == ["rms_norm", "quant_act"]
    assert prepared[0] is norm


@pytest.mark.parametrize("n", [1, 2, 7, 33])
def test_many_columns_equal_one_at_a_time(cpu, n):
    values = np.random.default_rng(n).standard_normal((n, 64)).astype(np.float32)
    whole = run(cpu, *layer(cpu, n), values).reshape(n, 64)
    for i in range(n):
        assert np.array_equal(run(cpu, *layer(cpu, 1), values[i : i + 1]), whole[i])


def attending(cpu: CpuDevice, values: list[np.ndarray]) -> tuple[list[Tensor], Tensor, Tensor]:
    """Inputs shaped as `values` (q, k, v, idx, range), attention, and what a product makes of
    it."""
    inputs = []
    for x in values:
        ne = (*x.shape[::-1], 1, 1, 1)[:4]
        inputs.append(Tensor(I32 if x.dtype == np.int32 else F32, ne, flags=INPUT))
    kqv = make("flash_attn", *inputs, scale=0.2, max_bias=0.0, softcap=0.0)
    out = make("mul_mat", weight(cpu, (kqv.ne[0], 64), 3), kqv)
    out.flags |= OUTPUT
    return inputs, kqv, out


@pytest.mark.parametrize(("n", "width", "n_places", "joined", "apart"), [
    (1, 32, 256, "flash_attn_quant", "flash_attn quant_act"),
    (9, 96, 1024, "flash_attn_quant", "flash_attn quant_act"),
    (1, 48, 256, "flash_attn quant_act", "flash_attn quant_act"),
    (1, 64, 1024, "flash_attn_part flash_attn_merge_quant",
     "flash_attn_part flash_attn_merge quant_act"),
    (1, 48, 1024, "flash_attn_part flash_attn_merge quant_act",
     "flash_attn_part flash_attn_merge quant_act"),
])  # fmt: skip
def test_attention_quantises_what_products_alone_read(cpu, n, width, n_places, joined, apart):
    """Where no group spans two heads; with the bits of attention that is kept as it is."""
    rng = np.random.default_rng(n + width)
    own = n_places - n + np.arange(n)
    shapes = ((n, 4, 32), (n_places, 2, 32), (n_places, 2, width))
    values = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    values.append(rng.permutation(n_places).astype(np.int32))
    values.append(np.stack([0 * own, 0 * own + 5, own + 1, own], 1).astype(np.int32))
    got = []
    for kept, ops in ((0, joined), (OUTPUT, apart)):
        inputs, kqv, out = attending(cpu, values)
        kqv.flags |= kept
        graph = CGraph()
        graph.build_forward_expand(out)
        compiled = Scheduler([cpu]).compile(graph)
        assert " ".join(t.op for t in compiled.order) == f"{ops} mul_mat"
        for t, x in zip(inputs, values, strict=True):
            t.buffer.write(t.offset_bytes, x)
        compiled.run()
        got.append(out.buffer.read(out.offset_bytes, out.n_bytes))
    assert got[0] == got[1] and any(got[0])


def touched(t: Tensor) -> tuple[int, int, int]:
    buffer, offset = t.home()
    return id(buffer), offset, offset + t.n_bytes


def test_no_stage_holds_a_conflict(cpu):
    """Checked from the tensors' places, pair by pair, not with the lowering's own books."""
    rng = np.random.default_rng(5)
    x = Tensor(F32, (64, 4, 1, 1), name="x", flags=INPUT)
    pool = [x]
    for i in range(60):
        a, b = (pool[rng.integers(max(0, len(pool) - 6), len(pool))] for _ in range(2))
        kind = ("add", "mul", "silu", "mul_mat")[rng.integers(4)]
        if kind == "mul_mat":
            pool.append(make("mul_mat", weight(cpu, (64, 64), i + 1), a))
        elif kind == "silu":
            pool.append(reshape(make("silu", a), 64, 4))
        else:
            pool.append(make(kind, a, b))
    out = pool[-1]
    out.flags |= OUTPUT
    graph = CGraph()
    graph.build_forward_expand(out)
    compiled = Scheduler([cpu]).compile(graph)
    nodes = [t for t in compiled.order if t.op not in ("reshape", "view")]
    plan = lower(compiled.order, Kernels())
    assert len(plan.nodes) == len(nodes)
    stage: list[Tensor] = []
    stages = 0
    for record, node in zip(plan.nodes, nodes, strict=True):
        if record["flags"] & 1:
            stage, stages = [], stages + 1
        for other in stage:
            for a, b in (
                [(touched(node), touched(other))]
                + [pair for s in node.src for pair in [(touched(s), touched(other))]]
                + [(touched(node), touched(s)) for s in other.src]
            ):
                assert a[0] != b[0] or a[2] <= b[1] or b[2] <= a[1], (node, other)
        stage.append(node)
    assert 1 < stages < len(nodes)


def test_ids_outside_a_table_are_a_named_fault(cpu):
    from llamapy.base.errors import KernelError

    ids = Tensor(I32, (2, 1, 1, 1), name="ids", flags=INPUT)
    out = make("get_rows", weight(cpu, (64, 8), 1, F32), ids)
    out.name, out.flags = "rows", OUTPUT
    with pytest.raises(KernelError, match=r"rows.*row index"):
        run(cpu, ids, out, np.array([3, 8], np.int32))


def product(
    cpu: CpuDevice, n: int, *, precise: bool, addend: bool = False
) -> tuple[Tensor, Tensor]:
    x = Tensor(F32, (64, n, 1, 1), name="x", flags=INPUT)
    bias = (weight(cpu, (96, 1), 9, F32),) if addend else ()
    out = make("mul_mat", weight(cpu, (64, 96), 3), x, *bias, precise=precise)
    out.name, out.flags = "out", OUTPUT
    return x, out


@pytest.mark.parametrize("addend", [False, True])
def test_a_precise_matmul_has_the_same_bits_for_any_number_of_columns(cpu, addend):
    values = np.random.default_rng(1).standard_normal((9, 64)).astype(np.float32)
    whole = run(cpu, *product(cpu, 9, precise=True, addend=addend), values).reshape(9, 96)
    for n in (1, 2, 3):
        part = run(cpu, *product(cpu, n, precise=True, addend=addend), values[:n])
        assert np.array_equal(part.reshape(n, 96), whole[:n])


def test_a_precise_matmul_loses_a_hundredth_of_what_a_plain_one_loses(cpu):
    values = np.random.default_rng(2).standard_normal((4, 64)).astype(np.float32)
    w = weight(cpu, (64, 96), 3)
    blocks = np.frombuffer(w.buffer.read(0, w.n_bytes), [("d", "<f2"), ("q", "i1", 32)])
    exact = blocks["d"].astype(np.float64)[:, None] * blocks["q"]
    want = values.astype(np.float64) @ exact.reshape(96, 64).T
    error = {}
    for precise in (False, True):
        got = run(cpu, *product(cpu, 4, precise=precise), values).reshape(4, 96)
        error[precise] = float(np.abs(got - want).max())
    assert error[True] < error[False] / 100


@pytest.mark.parametrize("n", [1, 4, 5, 8, 9, 20])
@pytest.mark.parametrize("kept", [False, True])
def test_only_rows_that_may_be_the_highest_are_computed_precisely(cpu, n, kept):
    """The places are those of the precise product, which is computed where anything else reads it,
    or where it costs no more."""
    values = np.random.default_rng(3).standard_normal((n, 64)).astype(np.float32)
    want = run(cpu, *product(cpu, n, precise=True), values).reshape(n, 96).argmax(axis=1)
    x, logits = product(cpu, n, precise=True)
    measure(logits.src[0], cpu)
    logits.flags = OUTPUT if kept else 0
    out = make("highest", logits)
    out.flags |= OUTPUT
    graph = CGraph()
    graph.build_forward_expand(out)
    compiled = Scheduler([cpu]).compile(graph)
    assert out.op == ("highest" if kept or n < 5 else "highest_sum")
    x.buffer.write(x.offset_bytes, values)
    compiled.run()
    got = np.frombuffer(out.buffer.read(out.offset_bytes, out.n_bytes), np.int32)
    assert got.tolist() == want.tolist()


def interleaved(cpu: CpuDevice, plain: Tensor) -> Tensor:
    """The same weights with rows interleaved by eight, in a buffer of their own."""
    twin = make("repack", plain)
    twin.flags |= OUTPUT
    graph = CGraph()
    graph.build_forward_expand(twin)
    Scheduler([cpu]).compile(graph).run()
    made = Tensor(twin.type, twin.ne, name=f"{plain.name} (r8)", flags=PARAM)
    made.buffer = cpu.alloc(cpu.repack_buft, made.n_bytes, "weights")
    made.buffer.write(0, twin.buffer.read(twin.offset_bytes, twin.n_bytes))
    return made


def experts(cpu: CpuDevice, n: int, twins: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """x -> norm -> gate, up of 2 of 4 experts -> swiglu -> down, summed; n tokens of 64. The ids
    are an input."""
    x = Tensor(F32, (64, n, 1, 1), name="x", flags=INPUT)
    ids = Tensor(I32, (2, n, 1, 1), name="ids", flags=INPUT)
    h = make("rms_norm", x, weight(cpu, (64, 1), 1, F32), eps=1e-5)
    column = reshape(h, 64, 1, n)
    banks = []
    for seed, k, m in ((2, 64, 96), (3, 64, 96), (4, 96, 64)):
        flat = weight(cpu, (k, m * 4), seed)
        bank = Tensor(flat.type, (k, m, 4, 1), name=f"e{seed}", flags=PARAM)
        bank.buffer = flat.buffer
        bank.twin = interleaved(cpu, bank) if twins else None
        banks.append(bank)
    gate, up = (make("mul_mat_id", bank, column, ids) for bank in banks[:2])
    out = make("weighted_sum", make("mul_mat_id", banks[2], make("swiglu", gate, up), ids))
    out.flags |= OUTPUT
    return x, ids, out


def test_what_experts_read_is_quantised_once_and_where_it_is_made(cpu):
    *_, out = experts(cpu, 3)
    graph = CGraph()
    graph.build_forward_expand(out)
    ops = [t.op for t in cpu.prepare(graph.nodes) if t.op != "reshape"]
    assert ops == [
        "rms_norm", "quant_act", "mul_mat_id", "mul_mat_id", "swiglu_quant", "mul_mat_id",
        "weighted_sum",
    ]  # fmt: skip


@pytest.mark.parametrize("n", [1, 6, 40])
def test_experts_of_many_tokens_equal_those_of_one(cpu, n):
    rng = np.random.default_rng(n)
    values = rng.standard_normal((n, 64)).astype(np.float32)
    ids = np.stack([rng.permutation(4)[:2] for _ in range(n)]).astype(np.int32)

    def compute(at: slice, twins: bool = False) -> np.ndarray:
        x, chosen, out = experts(cpu, len(values[at]), twins)
        graph = CGraph()
        graph.build_forward_expand(out)
        compiled = Scheduler([cpu]).compile(graph)
        types = {t.src[0].type.name for t in graph.nodes if t.op == "mul_mat_id"}
        assert types == ({"q8_0_r8"} if twins else {"q8_0"})
        x.buffer.write(x.offset_bytes, values[at])
        chosen.buffer.write(chosen.offset_bytes, ids[at])
        compiled.run()
        raw = out.buffer.read(out.offset_bytes, out.n_bytes)
        return np.frombuffer(raw, np.float32).reshape(-1, 64).copy()

    whole = compute(slice(None))
    assert np.array_equal(compute(slice(None), twins=True), whole)
    for i in range(n):
        assert np.array_equal(compute(slice(i, i + 1), twins=i % 2 == 1)[0], whole[i])
