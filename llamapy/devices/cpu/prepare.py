"""Rewriting a split into what the CPU's kernels compute, before memory is planned.

Quantised weights want quantised activations: one `quant_act` is put before all the matmuls that
read the same activation, or joined to the norm, gate or attention that made it. Attention of few
queries over a long context is cut into parts so that all threads have work. The bits are those of
the graph as built; a matmul marked `precise` takes its activation in two terms, of which the second
one is computed only where it matters if nothing but the place of the highest is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from llamapy.base.types import X8
from llamapy.graph.ops import GLU, make, reshape, view
from llamapy.graph.tensor import OUTPUT, Tensor

PAIR_COLUMNS = 8  # up to so many columns a precise matmul reads its weight once
SPLIT_KV = 512  # places in a list from which attention of few queries is worth cutting
_QUANT_OF = {
    name: f"{name}_quant"
    for name in ("rms_norm", "norm", "swiglu_oai", *GLU, "flash_attn", "flash_attn_merge")
}
_PRODUCTS = ("mul_mat", "mul_mat_id")


def _wants_x8(node: Tensor) -> bool:
    return node.op in _PRODUCTS and node.src[0].type.quantised and node.src[1].type.name == "f32"


def _may_quantise(node: Tensor) -> bool:
    """Whether there is an op for this node and quant_act in one: of norms, only with a weight; of
    attention, where no group spans two heads."""
    if node.op in ("rms_norm", "norm"):
        return len(node.src) > 1
    if node.op == "flash_attn":
        return node.src[2].ne[0] % X8.block == 0
    if node.op == "flash_attn_merge":
        return (node.src[0].ne[0] - 2) % X8.block == 0
    return node.op in _QUANT_OF


def _is_precise(node: Tensor) -> bool:
    return bool(node.params.get("precise")) and node.src[1].n_rows == node.src[1].ne[1]


def _precise(node: Tensor) -> list[Tensor]:
    """Two products, of the activation in 8 bits and of what that leaves, added up: the error of one
    with 16 bits. Few columns go through the weight side by side, many one product after the other;
    each element is the same sum of the same two dots."""
    w, x = node.src[:2]
    k, n = x.ne[0], x.ne[1]
    if n <= PAIR_COLUMNS:
        pair = make("quant_act_pair", x)
        pair.name = f"{node.name} (pair)"
        made = [pair]
        total: tuple[Tensor, ...] = (w, reshape(pair, k, 2 * n))
    else:
        made, rest = _main_term(node.name, w, x)
        total = (w, rest, made[-1])
    op, params = "mul_mat", {"pairs": n <= PAIR_COLUMNS}
    if addend := node.src[2:]:
        made.append(make(op, *total, **params))
        made[-1].name = f"{node.name} (sum)"
        op, total, params = "add", (made[-1], addend[0]), {}
    node.op, node.src = op, total
    node.params = {**params, "precise": False, "fused": ("mul_mat precise",)}
    return [*made, node]


def _may_screen(node: Tensor, uses: Counter[int], keep: Collection[int]) -> bool:
    """Whether of `node` only the highest elements matter, and leaving out most of the second term
    is worth it: up to half of PAIR_COLUMNS cost what reading the weight costs."""
    return (
        _wants_x8(node)
        and _is_precise(node)
        and len(node.src) == 2
        and node.src[0].lengths is not None
        and node.src[1].ne[1] > PAIR_COLUMNS // 2
        and uses[id(node)] == 1
        and not node.flags & OUTPUT
        and id(node) not in keep
    )


def _screen(nodes: list[Tensor], keep: Collection[int]) -> list[Tensor]:
    """highest(mul_mat precise) computes the first term, then the second one of the rows that may be
    the highest."""
    uses = Counter(id(s) for node in nodes for s in node.src)
    gone = {
        id(node.src[0])
        for node in nodes
        if node.op == "highest" and _may_screen(node.src[0], uses, keep)
    }
    out: list[Tensor] = []
    for node in nodes:
        if node.op == "highest" and id(node.src[0]) in gone:
            product = node.src[0]
            plain, x = product.src
            assert plain.lengths is not None
            w, (length, longest) = plain.twin or plain, plain.lengths
            made, rest = _main_term(product.name, w, x)
            node.op, node.src = (
                "highest_sum",
                (made[-1], w, rest, length, *node.src[1:]),
            )
            parts = ("mul_mat precise", f"highest {node.name}")
            node.params = {"longest": longest, "fused": parts}
            out += made
        if id(node) not in gone:
            out.append(node)
    return out


def _main_term(name: str, w: Tensor, x: Tensor) -> tuple[list[Tensor], Tensor]:
    """Nodes, the last of which is the product with x in 8 bits; and what that left of x."""
    k, n = x.ne[0], x.ne[1]
    pair = make("quant_act_pair", x)
    pair.name = f"{name} (pair)"
    row = pair.nb[1]
    main = make("mul_mat", w, view(pair, (k, n), (2 * row,)))
    main.name = f"{name} (main)"
    return [pair, main], view(pair, (k, n), (2 * row,), row)


def _uses(nodes: list[Tensor]) -> tuple[Counter[int], Counter[int]]:
    """How often each tensor is read (through views too), and how often as a matmul's activation."""
    all_uses: Counter[int] = Counter()
    x8_uses: Counter[int] = Counter()
    for node in nodes:
        for s in node.src:
            all_uses[id(s)] += 1
        if _wants_x8(node) and not _is_precise(node):
            x8_uses[id(node.src[1])] += 1
    return all_uses, x8_uses


def _take_twins(nodes: list[Tensor]) -> None:
    """Products of quantised activations read a weight's faster form, where it has one."""
    for node in nodes:
        if _wants_x8(node) and (twin := node.src[0].twin) is not None:
            node.src = (twin, *node.src[1:])


def _quantise(nodes: list[Tensor], keep: Collection[int]) -> list[Tensor]:
    all_uses, x8_uses = _uses(nodes)
    made: dict[int, Tensor] = {}  # id of an activation -> its quantised twin
    out: list[Tensor] = []
    for node in nodes:
        key = id(node)
        if (
            _may_quantise(node)
            and x8_uses[key]
            and all_uses[key] == x8_uses[key]
            and not node.flags & OUTPUT
            and key not in keep
        ):
            parts = node.params.get("fused", (f"{node.op} {node.name}",))
            twin = make(
                _QUANT_OF[node.op], *node.src, **{**node.params, "fused": (*parts, "quant_act")}
            )
            twin.name = f"{node.name} (x8)"
            made[key] = twin
            out.append(twin)
            continue
        if _wants_x8(node) and _is_precise(node):
            out += _precise(node)
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


def most_cut(n_head_kv: int, n_threads: int) -> int:
    """The most queries whose attention over a long context is cut into parts: those that leave a
    thread fewer than four (KV head, query) pairs."""
    return (4 * n_threads - 1) // max(n_head_kv, 1) if n_threads > 1 else 0


def _cut_attention(nodes: list[Tensor], n_threads: int) -> list[Tensor]:
    out: list[Tensor] = []
    for node in nodes:
        if node.op == "flash_attn":
            q, k, idx = node.src[0], node.src[1], node.src[3]
            if idx.ne[0] > SPLIT_KV and q.ne[2] <= most_cut(k.ne[1], n_threads):
                sinks = tuple(s for s in node.src[5:] if s.ne[1] == 1)
                scored = [s for s in node.src if s not in sinks]  # sinks join at the end
                parts = make("flash_attn_part", *scored, **node.params)
                parts.name = f"{node.name} (parts)"
                out.append(parts)
                node.op, node.src, node.params = "flash_attn_merge", (parts, *sinks), {}
        out.append(node)
    return out


def prepare(nodes: list[Tensor], keep: Collection[int], n_threads: int) -> list[Tensor]:
    """The nodes of a split as the CPU will run them. `keep`: ids of tensors that are needed outside
    of this split, besides OUTPUTs; those are never folded away."""
    nodes = _screen(nodes, keep)
    _take_twins(nodes)
    return _quantise(_cut_attention(nodes, n_threads), keep)
