"""Which chains one native call does. What it does is what the steps of `filters` say, bit by bit,
in a twentieth of the time; all other chains go through these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llamapy.ffi.usual import Usual
from llamapy.ffi.weights import log
from llamapy.sample.filters import COLDEST, HOTTEST
from llamapy.sample.params import SamplerParams

STEPS = ("top_k", "top_p", "min_p", "temperature")
MOST = 1024  # candidates: it sorts them with a heap


def find_usual(
    p: SamplerParams, active: Sequence[str], bias: Mapping[int, float], n_vocab: int
) -> Usual | None:
    """For the steps that are active; the first and the last of the usual ones must be."""
    if p.greedy:
        return None if active else Usual(1, bias=bias)
    k = min(max(p.top_k, p.min_keep), n_vocab)
    in_order = list(active) == [step for step in STEPS if step in active]
    if not in_order or not {"top_k", "temperature"} <= set(active) or k > MOST:
        return None
    if p.dynatemp_range > 0:
        return None
    return Usual(
        k,
        top_p=p.top_p if "top_p" in active else 1.0,
        log_min_p=log(p.min_p) if "min_p" in active else -float("inf"),
        temp=min(max(p.temp, COLDEST), HOTTEST),
        min_keep=min(p.min_keep, n_vocab),
        bias=bias,
    )
