"""Operands for attention: caches with gaps and scattered cells, holes, windows, several lists."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from harness import Case, Operand, operand, params, result

from llamapy.base.types import BY_NAME, CACHE_TYPES
from llamapy.devices.ref.memory import decode, encode
from llamapy.ffi.lib import KernelRow

Rng = np.random.Generator


@dataclass
class Attention:
    """One call: arrays in numpy order. k, v [n_cells, n_head_kv, n_embd_head] as they are stored;
    the last axis counts bytes where the type has blocks, and bf16 is uint16."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    idx: np.ndarray
    range: np.ndarray
    sinks: np.ndarray | None = None
    bias: np.ndarray | None = None  # [2 reach + 1, n_head]
    scale: float = 0.125
    max_bias: float = 0.0
    softcap: float = 0.0
    name: str = ""
    types: tuple[str, str] = ("f32", "f32")

    @property
    def n_embd_v(self) -> int:
        return width_of(self.v, self.types[1])

    @property
    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """K and V as float64."""
        k, v = (
            decode(x, BY_NAME[t], np.float64)
            for x, t in zip((self.k, self.v), self.types, strict=True)
        )
        return k, v

    def fp(self) -> list[float]:
        named = {"scale": self.scale, "max_bias": self.max_bias, "softcap": self.softcap}
        return params("flash_attn", **named)[1]

    def whole(self, kind: str = "f32") -> Case:
        srcs = [operand(self.q, 4), stored(self.k, self.types[0]), stored(self.v, self.types[1])]
        srcs += [operand(self.idx, 4), operand(self.range, 4)]
        srcs += [operand(x, 4) for x in (self.bias, self.sinks) if x is not None]
        n_tokens, n_head, _ = self.q.shape
        dst = result(kind, (self.n_embd_v * n_head, n_tokens))
        return Case(srcs, dst, fp=self.fp(), name=self.name)

    def parts(self) -> Case:
        case = self.whole()
        n_tokens, n_head, _ = self.q.shape
        n_tiles = self.idx.shape[1] // 64
        case.dst = result("f32", (self.n_embd_v + 2, n_tiles, n_head, n_tokens))
        case.srcs = case.srcs[: 5 + (self.bias is not None)]
        return case


def width_of(x: np.ndarray, name: str) -> int:
    """Elements of a row of a cache."""
    t = BY_NAME[name]
    return x.shape[2] // t.size_bytes * t.block if t.quantised else x.shape[2]


def stored(x: np.ndarray, name: str) -> Operand:
    """An operand of the cache x, whose gaps it keeps."""
    o, t = operand(x, 2), BY_NAME[name]
    o.type, o.ne, o.nb = t, (width_of(x, name), *o.ne[1:]), (t.size_bytes, *o.nb[1:])
    return o


def cache(rng: Rng, n_cells: int, n_head_kv: int, width: int, name: str) -> np.ndarray:
    """[n_cells, n_head_kv, width] in a type, with gaps between heads and between cells."""
    values = rng.standard_normal((n_cells, n_head_kv + 1, width)).astype(np.float32)
    rows = encode(values, BY_NAME[name])
    whole = np.zeros((*rows.shape[:2], rows.shape[2] + 4), rows.dtype)
    whole[..., : rows.shape[2]] = rows
    return whole[:, :n_head_kv, : rows.shape[2]]


def queries(rng: Rng, n_tokens: int, n_head: int, width: int) -> np.ndarray:
    whole = rng.standard_normal((n_tokens, n_head, width + 3)) * 2
    return whole.astype(np.float32)[:, :, :width]


def causal(n_tokens: int, n_past: int, window: int = 0) -> np.ndarray:
    own = np.arange(n_past, n_past + n_tokens)
    lo = np.maximum(0, own + 1 - window) if window else np.zeros_like(own)
    return np.stack([np.zeros_like(own), lo, own + 1, own], 1).astype(np.int32)


def by_distance(rng: Rng, reach: int, n_head: int) -> np.ndarray:
    """A bias that heads lie apart in."""
    return (rng.standard_normal((2 * reach + 1, n_head + 1)) * 3).astype(np.float32)[:, :n_head]


def make(
    rng: Rng, types: tuple[str, str], heads: tuple[int, int], widths: tuple[int, int],
    n_tokens: int, n_past: int, n_places: int, window: int = 0, holes: float = 0.0,
    name: str = "", sinks: bool = False, reach: int = 0, **given: float,
) -> Attention:  # fmt: skip
    """A prompt of n_tokens behind n_past places, cells in random order."""
    n_head, n_head_kv = heads
    n_cells = n_places + 7
    cells = rng.permutation(n_cells)[:n_places]
    cells[n_past + n_tokens :] = -1
    cells[rng.random(n_places) < holes] = -1
    return Attention(
        queries(rng, n_tokens, n_head, widths[0]),
        cache(rng, n_cells, n_head_kv, widths[0], types[0]),
        cache(rng, n_cells, n_head_kv, widths[1], types[1]),
        cells.astype(np.int32)[None, :],
        causal(n_tokens, n_past, window),
        (rng.standard_normal(n_head) * 2).astype(np.float32) if sinks else None,
        by_distance(rng, reach, n_head) if reach else None,
        name=name,
        types=types,
        **given,
    )


def several_lists(rng: Rng, types: tuple[str, str]) -> Attention:
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
        types=types,
    )


def attentions(rng: Rng, t: tuple[str, str]) -> list[Attention]:
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


def biased(rng: Rng, t: tuple[str, str]) -> list[Attention]:
    """By distance, within reach and beyond it; with all else that goes into a score."""
    both = make(rng, t, (4, 4), (32, 32), 90, 0, 128, reach=40, name="bias, to both sides")
    both.range[:, 2] = 90
    return [
        both,
        make(rng, t, (6, 3), (64, 32), 1, 150, 192, reach=128, name="bias, decode"),
        make(rng, t, (6, 3), (32, 32), 7, 70, 128, reach=1, sinks=True, softcap=5.0,
             max_bias=8.0, holes=0.2, name="bias, sinks, softcap, alibi"),
    ]  # fmt: skip


def in_blocks(rng: Rng, t: tuple[str, str]) -> list[Attention]:
    """Heads of whole blocks; few rows, and so many that a tile is transposed."""
    return [
        make(rng, t, (3, 1), (32, 64), 1, 90, 128, holes=0.1, name=f"{t} decode"),
        make(rng, t, (4, 2), (64, 32), 6, 62, 128, window=50, name=f"{t} prompt"),
    ]


def wide_heads(rng: Rng, t: tuple[str, str]) -> list[Attention]:
    sizes = ((192, 128), (256, 256), (576, 512), (32, 576))
    return [
        make(rng, t, (10, 1), widths, n, 60, 128, name=f"{t} {widths}, {n} queries")
        for widths in sizes
        for n in (1, 2)
    ]


FLOATS = tuple(product(("f32", "f16"), repeat=2))
PAIRS = tuple(p for p in product(CACHE_TYPES, repeat=2) if p not in FLOATS)


def whole_groups(found: list[Attention]) -> list[Attention]:
    """Those whose result can be X8."""
    return [a for a in found if a.n_embd_v % 32 == 0]


def flash_attn(rng: Rng, row: KernelRow) -> list[Case]:
    found = wide_heads(rng, ("f16", "q8_0"))
    for t in FLOATS:
        found.append(make(rng, t, (6, 3), (32, 48), 7, 70, 128, sinks=True, name="sinks"))
        found += attentions(rng, t)
    found += attentions(rng, ("bf16", "bf16"))
    for t in PAIRS:
        found += in_blocks(rng, t)
    for t in FLOATS:
        found += biased(rng, t)
    return [a.whole() for a in found]


def flash_attn_quant(rng: Rng, row: KernelRow) -> list[Case]:
    found = wide_heads(rng, ("f16", "q8_0"))
    for t in FLOATS:
        found.append(make(rng, t, (6, 3), (32, 96), 7, 70, 128, sinks=True, name="sinks"))
        found += attentions(rng, t) + biased(rng, t)
    for t in zip(CACHE_TYPES, reversed(CACHE_TYPES), strict=True):
        found += in_blocks(rng, t)
    return [a.whole("x8") for a in whole_groups(found)]


def flash_attn_part(rng: Rng, row: KernelRow) -> list[Case]:
    found = [a for t in FLOATS for a in attentions(rng, t)]
    for t in zip(CACHE_TYPES, reversed(CACHE_TYPES), strict=True):
        found += in_blocks(rng, t)
    found += biased(rng, ("f16", "f32"))
    return [a.parts() for a in found]


def flash_attn_merge(rng: Rng, row: KernelRow) -> list[Case]:
    cases = []
    widths = (32, 64, 96) if row.wtype == "x8" else (1, 64, 35)
    for dv, (n_tiles, n_head, n_tokens) in zip(
        widths, ((1, 1, 1), (5, 9, 2), (12, 3, 7)), strict=True
    ):
        parts = rng.standard_normal((n_tokens, n_head, n_tiles, dv + 2)).astype(np.float32)
        parts[..., dv] *= 10
        parts[..., dv + 1] = np.abs(parts[..., dv + 1]) + 1
        unseen = rng.random((n_tokens, n_head, n_tiles)) < 0.3
        parts[unseen] = np.array([0.0] * dv + [-np.inf, 0.0], np.float32)
        for sinks in (None, rng.standard_normal(n_head).astype(np.float32)):
            srcs = [operand(parts)] + ([] if sinks is None else [operand(sinks)])
            dst = result(row.wtype, (dv * n_head, n_tokens))
            cases.append(Case(srcs, dst, name=f"{dv} {n_tiles} {sinks is not None}"))
    return cases


CASES = {
    "flash_attn": flash_attn,
    "flash_attn_quant": flash_attn_quant,
    "flash_attn_part": flash_attn_part,
    "flash_attn_merge": flash_attn_merge,
    "flash_attn_merge_quant": flash_attn_merge,
}
