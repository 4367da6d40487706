"""What a test has to read and to compute, counted from shapes: the numerators of the roofline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llamapy.app.bench.params import Case
from llamapy.base.types import BY_NAME
from llamapy.graph.tensor import Tensor
from llamapy.kv.api import CacheShape, States


@dataclass(frozen=True, slots=True)
class Weights:
    """Of one model. Per token: bytes of weights that are read; operations (a multiply-add is two)
    with weights of whole-number types and with float ones. `head_*`: those of the output matrix,
    which a prompt needs for its last token alone. `n_elements`: parameters in the file."""

    n_bytes: int
    int_ops: int
    float_ops: int
    head_bytes: int
    head_int_ops: int
    head_float_ops: int
    n_elements: int
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one whole test: what its prompt computes and what its generation reads."""

    prompt_int_ops: int
    prompt_float_ops: int
    gen_bytes: int

    def ideal_s(self, read: float, int8: float, fma: float) -> float:
        """Seconds at the machine's ceilings (bytes/s and two of operations/s): the prompt bound by
        multiply-adds with weights, generation by reading. NaN for a ceiling that is unknown."""
        total = 0.0
        for amount, rate in (
            (self.prompt_int_ops, int8),
            (self.prompt_float_ops, fma),
            (self.gen_bytes, read),
        ):
            if amount:
                total += amount / rate if rate > 0 else math.nan
        return total


def weigh(tensors: Mapping[str, Tensor], n_expert: int = 0, n_used: int = 0) -> Weights:
    """Count a model's weights. Matrices are multiplied with, once per token; of the embedding one
    row is read, and all of it only where there is no other output matrix. Of matrices [k, m,
    n_expert] a token reads n_used."""
    head = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    n_bytes = int_ops = float_ops = 0
    head_bytes = head_int = head_float = 0
    for name, t in tensors.items():
        if name == "token_embd.weight":
            n_bytes += t.type.row_bytes(t.ne[0])
            if name != head:
                continue
        used, of = (n_used, n_expert) if n_expert and t.ne[2] == n_expert else (1, 1)
        n_bytes += t.n_bytes * used // of
        ops = 2 * t.n_elements * used // of if t.ne[1] > 1 else 0
        if t.type.quantised:
            int_ops += ops
        else:
            float_ops += ops
        if name == head:
            head_bytes = t.n_bytes
            head_int, head_float = (ops, 0) if t.type.quantised else (0, ops)
    return Weights(
        n_bytes,
        int_ops,
        float_ops,
        head_bytes,
        head_int,
        head_float,
        sum(t.n_elements for t in tensors.values()),
        sum(t.n_bytes for t in tensors.values()),
    )


class Kept(NamedTuple):
    """What a model keeps from token to token: see models.registry."""

    cache: CacheShape
    states: Sequence[States]


def kept_bytes(kept: Kept, n_past: int, type_k: str, type_v: str) -> int:
    """Bytes of K, V and states that one token reads which is the `n_past`-th (from 1) of its
    sequence; a window layer reads its window."""
    c, k, v = kept.cache, BY_NAME[type_k], BY_NAME[type_v]
    total = sum(4 * math.prod(ne) for layer in kept.states for ne in layer.values())
    for il, of in enumerate(c.share):
        seen = n_past
        if c.is_swa[il]:
            seen = (n_past - 1) % c.n_swa + 1 if c.window == "chunked" else min(n_past, c.n_swa)
        row = k.row_bytes(c.n_embd_head_k[of])
        row += 0 if c.v_is_k[of] else v.row_bytes(c.n_embd_head_v[of])
        total += seen * c.n_head_kv[of] * row
    return total


def cost(kept: Kept, w: Weights, case: Case) -> Cost:
    """Of one repetition of a test. Attention is not among the operations: prompts are held against
    the matrix products alone, as their ceilings are those of matrix products."""
    n_heads = len(slices(case.n_prompt, case.n_batch))
    start = case.n_depth + case.n_prompt
    return Cost(
        case.n_prompt * (w.int_ops - w.head_int_ops) + n_heads * w.head_int_ops,
        case.n_prompt * (w.float_ops - w.head_float_ops) + n_heads * w.head_float_ops,
        case.n_gen * w.n_bytes
        + sum(kept_bytes(kept, start + i + 1, case.type_k, case.type_v) for i in range(case.n_gen)),
    )


def slices(n: int, step: int) -> Sequence[tuple[int, int]]:
    """[0, n) cut into parts of at most `step`."""
    return [(at, min(at + step, n)) for at in range(0, n, step)]
