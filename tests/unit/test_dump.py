"""What `llamapy graph` prints: text, dot and JSON of a compiled graph."""

from __future__ import annotations

import json

import pytest

from llamapy.base.types import F32
from llamapy.devices.null import NullDevice
from llamapy.graph.cgraph import CGraph
from llamapy.graph.compiled import Compiled
from llamapy.graph.dump import FORMATS, as_dict, dot, dump, size, text
from llamapy.graph.fuse import fuse
from llamapy.graph.ops import make, reshape
from llamapy.graph.sched import Scheduler
from llamapy.graph.tensor import INPUT, OUTPUT, Tensor


def named(name: str, t: Tensor) -> Tensor:
    t.name = name
    return t


@pytest.fixture
def compiled() -> Compiled:
    gpu, cpu = NullDevice("gpu"), NullDevice("cpu", host=True)
    w = Tensor(F32, (8, 8, 1, 1), name="blk.0.attn_q.weight")
    w.buffer = gpu.alloc(gpu.default_buft, w.n_bytes, "weights")
    b = Tensor(F32, (8, 1, 1, 1), name="blk.0.attn_q.bias")
    b.buffer = gpu.alloc(gpu.default_buft, b.n_bytes, "weights")
    x = Tensor(F32, (8, 4, 1, 1), name='in"p', flags=INPUT)
    q = named("attn_q-0", make("add", named("q", make("mul_mat", w, x)), b))
    seen = named("flat", reshape(q, 32))
    gpu._runs = lambda t: t.op != "exp"
    out = named("result", make("exp", seen))
    out.flags |= OUTPUT
    g = CGraph()
    g.build_forward_expand(out)
    return Scheduler([gpu, cpu]).compile(fuse(g))


def test_text_has_a_line_per_buffer_input_split_and_node(compiled: Compiled) -> None:
    assert text(compiled).splitlines() == [
        "buffer gpu: 256 B (256)",
        "buffer cpu: 128 B (128)",
        'input in"p f32[8, 4] cpu+0',
        'split 0 gpu nodes 0..1, 1 run; inputs: in"p (128 B)',
        "     0 attn_q-0 mul_mat f32[8, 4] gpu+128 128 B gpu 1.wgt0"
        " fused(mul_mat q + add attn_q-0) <- blk.0.attn_q.weight f32[8, 8],"
        ' gpu#in"p#0 f32[8, 4], blk.0.attn_q.bias f32[8]',
        "split 1 cpu nodes 2..2, 1 run; inputs: flat (128 B)",
        "     1 result exp f32[32] cpu+0 128 B cpu 3.best output <- cpu#flat#0 f32[32]",
    ]
    assert " 1.wgt0" not in text(compiled, why=False)
    assert dump(compiled) == text(compiled)


def test_json_carries_the_same_and_more(compiled: Compiled) -> None:
    d = json.loads(dump(compiled, "json"))
    assert d == json.loads(json.dumps(as_dict(compiled)))
    assert d["buffer_bytes"] == {"gpu": 256, "cpu": 128}
    node = d["splits"][0]["nodes"][0]
    assert node["fused"] == ["mul_mat q", "add attn_q-0"]
    assert (node["device"], node["cause"], node["place"]) == ("gpu", "1.wgt0", "gpu+128")
    assert node["src"][0] == {"name": "blk.0.attn_q.weight", "type": "f32", "ne": [8, 8, 1, 1]}
    assert d["splits"][1]["nodes"][0]["flags"] == ["output"]
    assert d["splits"][1]["inputs"] == [{"name": "flat", "bytes": 128, "from": "gpu", "twins": 1}]


def test_dot_has_a_cluster_per_split_and_an_edge_per_source(compiled: Compiled) -> None:
    lines = [line.strip() for line in dot(compiled).splitlines()]
    assert lines[0] == "digraph llamapy {" and lines[-1] == "}"
    assert 'i0 [label="in\\"p\\nf32[8, 4]", style=rounded];' in lines
    assert 'n1 [label="attn_q-0\\nmul_mat\\nf32[8, 4]"];' in lines
    assert sum(line.startswith("subgraph cluster_") for line in lines) == 2
    assert [line for line in lines if "->" in line] == [
        "i0 -> n1 [style=dashed];",
        "n1 -> n2 [style=dashed];",
    ]


def test_dumping_changes_nothing(compiled: Compiled) -> None:
    assert [dump(compiled, f) for f in FORMATS] == [dump(compiled, f) for f in FORMATS]


def test_sizes() -> None:
    assert [size(n) for n in (0, 1023, 1536, 8671296, 5 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "8.27 MiB",
        "5 GiB",
    ]
