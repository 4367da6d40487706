"""Rows interleaved by eight, as numpy would do it: what `repack` means. The layout is described in
native/kernels/matmul/r8.h."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.base.types import BY_NAME

Array = npt.NDArray[Any]
SUFFIX = "_r8"
# Of a twin's block: (words, bytes of a word, bits that stand for one weight where their order
# changes), then where in a plain block they stand if not behind those before.
FIELDS: dict[str, tuple[tuple[int, ...], ...]] = {
    "q4_0": ((1, 2, 0), (4, 4, 0)),
    "q4_1": ((1, 4, 0), (4, 4, 0)),
    "q5_0": ((1, 2, 0), (1, 4, 1), (4, 4, 0)),
    "q5_1": ((1, 4, 0), (1, 4, 1), (4, 4, 0)),
    "q8_0": ((1, 2, 0), (8, 4, 0)),
    "q2_K": ((21, 4, 0),),
    "q3_K": ((27, 4, 0), (1, 2, 0)),
    "q4_K": ((36, 4, 0),),
    "q5_K": ((44, 4, 0),),
    "q6_K": (
        (4, 4, 0, 192),
        (8, 4, 0, 128),
        (16, 4, 0, 0),
        (8, 4, 0, 160),
        (16, 4, 0, 64),
        (1, 2, 0, 208),
    ),
    "iq4_nl": ((1, 2, 0), (4, 4, 0)),
    "iq4_xs": ((34, 4, 0),),
    "mxfp4": ((1, 1, 0), (4, 4, 0)),
    "nvfp4": ((9, 4, 0),),
    "tq1_0": ((13, 4, 0), (1, 2, 0)),
    "tq2_0": ((16, 4, 0), (1, 2, 0)),
    "q1_0": ((1, 2, 0), (4, 4, 1)),
    "q2_0": ((1, 2, 0), (4, 4, 2)),
}


def is_interleaved(type_name: str) -> bool:
    return type_name.endswith(SUFFIX)


def plain(type_name: str) -> str:
    """The type whose rows an interleaved type holds, or the type itself."""
    return type_name.removesuffix(SUFFIX)


def _reordered(words: Array, bits: int, back: bool) -> Array:
    """uint8 [..., 4]: weight 4 s + e of a word goes to place s of byte e, or back."""
    steps = 32 // bits // 4
    flat = np.unpackbits(np.ascontiguousarray(words), axis=-1, bitorder="little")
    shape = (4, steps, bits) if back else (steps, 4, bits)
    turned = np.moveaxis(flat.reshape(*words.shape[:-1], *shape), -3, -2)
    flat = np.ascontiguousarray(turned).reshape(*words.shape[:-1], 32)
    return np.packbits(flat, axis=-1, bitorder="little")


def _fields(type_name: str) -> Iterator[tuple[int, int, int, int, int]]:
    """Words, their bytes, bits, and where they stand in a plain block and in a twin's."""
    at = 0
    for words, unit, bits, *where in FIELDS[type_name]:
        yield words, unit, bits, where[0] if where else at, at
        at += words * unit


def interleave(raw: Array, type_name: str) -> Array:
    """uint8 [..., rows, row bytes] of a plain type, rows a multiple of 8, in its twin's order."""
    size = BY_NAME[type_name].size_bytes
    blocks = raw.reshape(-1, 8, raw.shape[-1] // size, size)  # eights, row, block, byte
    parts = []
    for words, unit, bits, at, _ in _fields(type_name):
        field = blocks[..., at : at + words * unit].reshape(*blocks.shape[:3], words, unit)
        if bits:
            field = _reordered(field, bits, back=False)
        turned = field.transpose(0, 2, 3, 1, 4)  # eights, block, word, row, byte
        parts.append(turned.reshape(len(blocks), blocks.shape[2], -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=2)).reshape(raw.shape)


def separate(raw: Array, type_name: str) -> Array:
    """What `interleave` was given."""
    size = BY_NAME[type_name].size_bytes
    n_block = raw.shape[-1] // size
    eights = np.ascontiguousarray(raw).reshape(-1, n_block, 8 * size)
    out = np.empty((len(eights), 8, n_block, size), np.uint8)
    for words, unit, bits, to, at in _fields(type_name):
        field = eights[..., 8 * at : 8 * (at + words * unit)]
        turned = field.reshape(len(eights), n_block, words, 8, unit).transpose(0, 3, 1, 2, 4)
        if bits:
            turned = _reordered(turned, bits, back=True)
        out[..., to : to + words * unit] = turned.reshape(len(eights), 8, n_block, words * unit)
    return out.reshape(raw.shape)
