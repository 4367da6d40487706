"""Operands for attention: caches with gaps and scattered cells, holes, windows, several lists."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from harness import Case, operand, params, result

from llamapy.ffi.lib import KernelRow

Rng = np.random.Generator


@dataclass
class Attention:
    """One call: arrays in numpy order. k, v [n_cells, n_head_kv, n_embd_head]."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    idx: np.ndarray
    range: np.ndarray
    sinks: np.ndarray | None = None
    scale: float = 0.125
    max_bias: float = 0.0
    softcap: float = 0.0
    name: str = ""

    def fp(self) -> list[float]:
        named = {"scale": self.scale, "max_bias": self.max_bias, "softcap": self.softcap}
        return params("flash_attn", **named)[1]

    def whole(self) -> Case:
        srcs = [operand(a, 4) for a in (self.q, self.k, self.v, self.idx, self.range)]
        if self.sinks is not None:
            srcs.append(operand(self.sinks, 4))
        n_tokens, n_head, _ = self.q.shape
        dst = result("f32", (self.v.shape[2] * n_head, n_tokens))
        return Case(srcs, dst, fp=self.fp(), name=self.name)

    def parts(self) -> Case:
        case = self.whole()
        n_tokens, n_head, _ = self.q.shape
        n_tiles = self.idx.shape[1] // 64
        case.dst = result("f32", (self.v.shape[2] + 2, n_tiles, n_head, n_tokens))
        case.srcs = case.srcs[:5]
        return case


def cache(rng: Rng, n_cells: int, n_head_kv: int, width: int, dtype: type) -> np.ndarray:
    """[n_cells, n_head_kv, width] with gaps between heads and between cells."""
    whole = rng.standard_normal((n_cells, n_head_kv + 1, width + 4)).astype(dtype)
    return whole[:, :n_head_kv, :width]


def queries(rng: Rng, n_tokens: int, n_head: int, width: int) -> np.ndarray:
    whole = rng.standard_normal((n_tokens, n_head, width + 3)) * 2
    return whole.astype(np.float32)[:, :, :width]


def causal(n_tokens: int, n_past: int, window: int = 0) -> np.ndarray:
    own = np.arange(n_past, n_past + n_tokens)
    lo = np.maximum(0, own + 1 - window) if window else np.zeros_like(own)
    return np.stack([np.zeros_like(own), lo, own + 1, own], 1).astype(np.int32)


def make(
    rng: Rng, row_types: tuple[type, type], heads: tuple[int, int], widths: tuple[int, int],
    n_tokens: int, n_past: int, n_places: int, window: int = 0, holes: float = 0.0,
    name: str = "", sinks: bool = False, **given: float,
) -> Attention:  # fmt: skip
    """A prompt of n_tokens behind n_past places, cells in random order."""
    n_head, n_head_kv = heads
    n_cells = n_places + 7
    cells = rng.permutation(n_cells)[:n_places]
    cells[n_past + n_tokens :] = -1
    cells[rng.random(n_places) < holes] = -1
    return Attention(
        queries(rng, n_tokens, n_head, widths[0]),
        cache(rng, n_cells, n_head_kv, widths[0], row_types[0]),
        cache(rng, n_cells, n_head_kv, widths[1], row_types[1]),
        cells.astype(np.int32)[None, :],
        causal(n_tokens, n_past, window),
        (rng.standard_normal(n_head) * 2).astype(np.float32) if sinks else None,
        name=name,
        **given,
    )


def several_lists(rng: Rng, types: tuple[type, type]) -> Attention:
    """Three sequences of different lengths in one batch, tokens mixed; one query sees nothing."""
    lengths, n_places, n_cells = (70, 3, 200), 256, 300
    cells = rng.permutation(n_cells)
    idx = np.full((3, n_places), -1, np.int32)
    at = 0
    for i, n in enumerate(lengths):
        idx[i, :n] = cells[at : at + n]
        at += n
    rows = [(2, 0, 200, 199), (0, 0, 70, 69), (0, 0, 69, 68), (1, 0, 3, 2), (2, 130, 180, 179)]
    rows += [(1, 2, 2, 2), (2, 0, 1, 0)]
    return Attention(
        queries(rng, len(rows), 6, 32),
        cache(rng, n_cells, 2, 32, types[0]),
        cache(rng, n_cells, 2, 32, types[1]),
        idx,
        np.array(rows, np.int32),
        name="several lists",
    )


DTYPES = {"f32": np.float32, "f16": np.float16}


def attentions(rng: Rng, t: tuple[type, type]) -> list[Attention]:
    return [
        make(rng, t, (9, 3), (64, 64), 1, 150, 256, name="decode"),
        make(rng, t, (4, 4), (64, 64), 1, 63, 64, name="decode, one head each"),
        make(rng, t, (4, 1), (32, 80), 21, 0, 64, name="prompt"),
        make(rng, t, (6, 2), (64, 64), 40, 90, 192, name="prompt behind a past"),
        make(rng, t, (2, 2), (40, 24), 5, 70, 128, name="tails, direct"),
        make(rng, t, (5, 1), (1, 3), 9, 60, 128, name="tiny heads"),
        make(rng, t, (8, 2), (48, 64), 30, 100, 192, window=37, name="window"),
        make(rng, t, (8, 2), (64, 16), 11, 130, 192, holes=0.3, name="holes"),
        make(rng, t, (8, 2), (64, 64), 1, 130, 192, holes=0.5, name="holes, decode"),
        make(rng, t, (6, 3), (32, 32), 7, 70, 128, softcap=5.0, name="softcap"),
        make(rng, t, (6, 3), (32, 32), 7, 70, 128, max_bias=8.0, name="alibi"),
        several_lists(rng, t),
    ]


FLOATS = tuple(product(DTYPES.values(), repeat=2))


def flash_attn(rng: Rng, row: KernelRow) -> list[Case]:
    found = []
    for t in FLOATS:
        sink = make(rng, t, (6, 3), (32, 48), 7, 70, 128, sinks=True, name="sinks")
        found += [a.whole() for a in (*attentions(rng, t), sink)]
    return found


def flash_attn_part(rng: Rng, row: KernelRow) -> list[Case]:
    return [a.parts() for t in FLOATS for a in attentions(rng, t)]


def flash_attn_merge(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    for dv, n_tiles, n_head, n_tokens in ((1, 1, 1, 1), (64, 5, 9, 2), (35, 12, 3, 7)):
        parts = rng.standard_normal((n_tokens, n_head, n_tiles, dv + 2)).astype(np.float32)
        parts[..., dv] *= 10
        parts[..., dv + 1] = np.abs(parts[..., dv + 1]) + 1
        unseen = rng.random((n_tokens, n_head, n_tiles)) < 0.3
        parts[unseen] = np.array([0.0] * dv + [-np.inf, 0.0], np.float32)
        for sinks in (None, rng.standard_normal(n_head).astype(np.float32)):
            srcs = [operand(parts)] + ([] if sinks is None else [operand(sinks)])
            dst = result("f32", (dv * n_head, n_tokens))
            cases.append(Case(srcs, dst, name=f"{dv} {n_tiles} {sinks is not None}"))
    return cases


CASES = {
    "flash_attn": flash_attn,
    "flash_attn_part": flash_attn_part,
    "flash_attn_merge": flash_attn_merge,
}
