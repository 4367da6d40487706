"""Shape rules of the ops of mixtures of experts.

`ids`, i32 [n_used, n_tokens], are the experts chosen for every token.
"""

from __future__ import annotations

from typing import Any

from llamapy.base.types import F32, I32, Type
from llamapy.graph.tensor import Shape, Tensor

Srcs = tuple[Tensor, ...]
Result = tuple[Type, Shape]


def _ids_of(name: str, ids: Tensor, n_used: int, n_tokens: int) -> None:
    if ids.ne != (n_used, n_tokens, 1, 1):
        raise ValueError(f"{name}: ids {list(ids.ne)} are not [{n_used}, {n_tokens}]")


def mul_mat_id(srcs: Srcs, p: dict[str, Any]) -> Result:
    """Weights [k, m, n_expert] by x [k, n_used or 1, n_tokens]: [m, n_used, n_tokens]; ids i32
    [n_used, n_tokens] say whose weights multiply a column."""
    w, x, ids = srcs
    if w.ne[0] != x.ne[0] or w.ne[3] * x.ne[3] != 1 or x.ne[1] not in (1, ids.ne[0]):
        raise ValueError(f"cannot multiply {w.name} {list(w.ne)} by {x.name} {list(x.ne)}")
    _ids_of("mul_mat_id", ids, ids.ne[0], x.ne[2])
    return F32, (w.ne[1], ids.ne[0], ids.ne[1], 1)


def top_k_ids(srcs: Srcs, p: dict[str, Any]) -> Result:
    """Scores [n_expert, n_tokens] in n_group equal groups, n_group_used of which may be chosen."""
    n_expert, n_tokens = srcs[0].ne[:2]
    k, n_group, n_used = p["k"], p["n_group"], p["n_group_used"]
    if not 1 <= n_used <= n_group or n_expert % n_group or srcs[0].ne[2] * srcs[0].ne[3] != 1:
        raise ValueError(f"cannot choose {n_used} of {n_group} groups of {list(srcs[0].ne)}")
    if not 1 <= k <= n_expert // n_group * n_used:
        raise ValueError(f"cannot choose {k} of {n_expert // n_group * n_used} experts")
    return I32, (k, n_tokens, 1, 1)


def take_ids(srcs: Srcs, p: dict[str, Any]) -> Result:
    values, ids = srcs
    _ids_of("take_ids", ids, ids.ne[0], values.ne[1])
    return F32, (ids.ne[0], ids.ne[1], 1, 1)


def add_id(srcs: Srcs, p: dict[str, Any]) -> Result:
    x, bias, ids = srcs
    if bias.ne[0] != x.ne[0] or x.ne[3] != 1:
        raise ValueError(f"cannot add rows of {list(bias.ne)} to {list(x.ne)}")
    _ids_of("add_id", ids, x.ne[1], x.ne[2])
    return F32, x.ne


def weighted_sum(srcs: Srcs, p: dict[str, Any]) -> Result:
    """x [n, k, n_tokens] summed over k, times weights [k, n_tokens] where there are any."""
    x = srcs[0]
    if x.ne[3] != 1 or (len(srcs) == 2 and srcs[1].ne != (x.ne[1], x.ne[2], 1, 1)):
        raise ValueError(f"cannot weigh {list(x.ne)} by {[list(s.ne) for s in srcs[1:]]}")
    return F32, (x.ne[0], x.ne[2], 1, 1)
