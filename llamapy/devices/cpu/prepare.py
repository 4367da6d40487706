"""Rewriting a split into what the CPU's kernels compute, before memory is planned.

Quantised weights want quantised activations: one `quant_act` is put before all the matmuls that
read the same activation, or joined to the norm or gate that made it. Attention of few queries over
a long context is cut into parts so that all threads have work. The bits are those of the graph as
built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from llamapy.graph.ops import GLU, make
from llamapy.graph.tensor import OUTPUT, Tensor

SPLIT_KV = 512  # places in a list from which attention of few queries is worth cutting
_QUANT_OF = {"rms_norm": "rms_norm_quant", **{name: f"{name}_quant" for name in GLU}}


def _wants_x8(node: Tensor) -> bool:
    return node.op == "mul_mat" and node.src[0].type.quantised and node.src[1].type.name == "f32"


def _uses(nodes: list[Tensor]) -> tuple[Counter[int], Counter[int]]:
    """How often each tensor is read (through views too), and how often as a matmul's activation."""
    all_uses: Counter[int] = Counter()
    x8_uses: Counter[int] = Counter()
    for node in nodes:
        for s in node.src:
            all_uses[id(s)] += 1
        if _wants_x8(node):
            x8_uses[id(node.src[1])] += 1
    return all_uses, x8_uses


def _quantise(nodes: list[Tensor], keep: Collection[int]) -> list[Tensor]:
    all_uses, x8_uses = _uses(nodes)
    made: dict[int, Tensor] = {}  # id of an activation -> its quantised twin
    out: list[Tensor] = []
    for node in nodes:
        fused = _QUANT_OF.get(node.op)
        key = id(node)
        if (
            fused
            and x8_uses[key]
            and all_uses[key] == x8_uses[key]
            and not node.flags & OUTPUT
            and key not in keep
            and (node.op != "rms_norm" or len(node.src) == 2)
        ):
            parts = node.params.get("fused", (f"{node.op} {node.name}",))
            twin = make(fused, *node.src, **{**node.params, "fused": (*parts, "quant_act")})
            twin.name = f"{node.name} (x8)"
            made[key] = twin
            out.append(twin)
            continue
        if _wants_x8(node):
            x = node.src[1]
            if id(x) not in made:
                twin = make("quant_act", x)
                twin.name = f"{x.name} (x8)"
                made[id(x)] = twin
                out.append(twin)
            node.src = (node.src[0], made[id(x)], *node.src[2:])
        out.append(node)
    return out


def _cut_attention(nodes: list[Tensor], n_threads: int) -> list[Tensor]:
    out: list[Tensor] = []
    for node in nodes:
        if node.op == "flash_attn":
            q, k, idx = node.src[0], node.src[1], node.src[3]
            groups = k.ne[1] * q.ne[2]  # (kv head, query) pairs
            if idx.ne[0] > SPLIT_KV and n_threads > 1 and groups < 4 * n_threads:
                parts = make("flash_attn_part", *node.src[:5], **node.params)
                parts.name = f"{node.name} (parts)"
                out.append(parts)
                node.op, node.src, node.params = "flash_attn_merge", (parts, *node.src[5:]), {}
        out.append(node)
    return out


def prepare(nodes: list[Tensor], keep: Collection[int], n_threads: int) -> list[Tensor]:
    """The nodes of a split as the CPU will run them. `keep`: ids of tensors that are needed outside
    of this split, besides OUTPUTs; those are never folded away."""
    return _cut_attention(_quantise(nodes, keep), n_threads)
