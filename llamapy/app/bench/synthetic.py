"""A model of a real shape with random weights: a GGUF that stands in memory instead of on a disk.

The architecture itself says which tensors it wants, and the loader reads the result as it reads any
file, so what is measured is what a file of that shape and type would do.
"""

from __future__ import annotations

import itertools
import mmap
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from llamapy.app.bench.blocks import Bytes, random_blocks
from llamapy.app.bench.mix import Where, type_name
from llamapy.app.bench.shapes import Shape, Spec
from llamapy.base.errors import MemoryBudgetError
from llamapy.base.types import BY_NAME, Type
from llamapy.ffi.memory import anonymous
from llamapy.loader.gguf import GGUF
from llamapy.loader.spec import TensorSpec, apart
from llamapy.loader.splits import ModelFiles
from llamapy.models import registry

ALIGNMENT = 32
TILE_BYTES = 4 << 20  # of random data, repeated: no cache holds a matrix and its neighbours
Key = str | int | float
Plan = list[tuple[TensorSpec, Type]]


def make_files(spec: Spec, seed: int = 0) -> ModelFiles:
    """The model as open files; the same bytes for the same spec and seed. MemoryBudgetError when
    they do not fit."""
    plan = plan_tensors(spec)
    head = _header(_keys(spec.shape), plan)
    size = _aligned(len(head)) + sum(_aligned(_n_bytes(s, t)) for s, t in plan)
    try:
        # A file's pages lie in long runs, which are as quick to read as huge ones; single pages of
        # memory take a tenth longer.
        map_ = anonymous(size, huge=True)
    except (OSError, OverflowError) as e:
        raise MemoryBudgetError(f"{spec.name}: no memory for {size} bytes of weights: {e}") from e
    map_[: len(head)] = head
    _fill(np.frombuffer(map_, np.uint8), _aligned(len(head)), plan, seed)
    return _files(spec.name, map_, size)


def plan_tensors(spec: Spec) -> Plan:
    """Every tensor of the model and its type, in the order of the architecture."""
    shape, head = spec.shape, _header(_keys(spec.shape), [])
    map_ = mmap.mmap(-1, len(head))
    map_[:] = head
    with _files(spec.name, map_, len(head)) as files:
        arch = registry.find(shape.arch, spec.name)
        wanted = arch.tensors(registry.shape_of(arch, files), apart)
    return [(s, _type_of(spec, s)) for s in wanted if s.required or _optional(shape, s.name)]


def _optional(shape: Shape, name: str) -> bool:
    return (name == "output.weight" and not shape.tied) or (
        name == "rope_freqs.weight" and shape.rope_factors
    )


def _type_of(spec: Spec, s: TensorSpec) -> Type:
    if len(s.ne) == 1:
        return BY_NAME["f32"]
    shape = spec.shape
    output = "token_embd.weight" if shape.tied else "output.weight"
    where = Where(s.name, s.layer, shape.n_layer, shape.n_head // shape.n_head_kv, s.name == output)
    blocks = {name: t.block for name, t in BY_NAME.items()}
    return BY_NAME[type_name(spec.kind, where, s.ne[0], blocks)]


def _files(name: str, map_: mmap.mmap, size: int) -> ModelFiles:
    return ModelFiles([GGUF.of(Path(name), map_, size)])


def _keys(shape: Shape) -> dict[str, Key]:
    a = shape.arch
    keys: dict[str, Key] = {
        "general.architecture": a,
        f"{a}.block_count": shape.n_layer,
        f"{a}.context_length": shape.n_ctx_train,
        f"{a}.embedding_length": shape.n_embd,
        f"{a}.feed_forward_length": shape.n_ff,
        f"{a}.attention.head_count": shape.n_head,
        f"{a}.attention.head_count_kv": shape.n_head_kv,
        f"{a}.attention.key_length": shape.n_embd_head,
        f"{a}.attention.value_length": shape.n_embd_head,
        f"{a}.attention.layer_norm_rms_epsilon": shape.eps,
        f"{a}.rope.freq_base": shape.freq_base,
        f"{a}.vocab_size": shape.n_vocab,
    }
    if shape.n_swa:
        keys[f"{a}.attention.sliding_window"] = shape.n_swa
    return keys


def _aligned(n: int) -> int:
    return -(-n // ALIGNMENT) * ALIGNMENT


def _n_bytes(s: TensorSpec, t: Type) -> int:
    n = 1
    for v in s.ne[1:]:
        n *= v
    return t.row_bytes(s.ne[0]) * n


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _header(keys: dict[str, Key], plan: Sequence[tuple[TensorSpec, Type]]) -> bytes:
    """Everything before the data, by the GGUF specification, version 3."""
    out = [b"GGUF", struct.pack("<IQQ", 3, len(plan), len(keys))]
    for name, value in keys.items():
        out.append(_text(name))
        if isinstance(value, str):
            out += [struct.pack("<I", 8), _text(value)]
        else:
            out.append(struct.pack("<If" if isinstance(value, float) else "<II",
                                   6 if isinstance(value, float) else 4, value))  # fmt: skip
    offset = 0
    for s, t in plan:
        out += [_text(s.name), struct.pack(f"<I{len(s.ne)}Q", len(s.ne), *s.ne)]
        out.append(struct.pack("<IQ", t.id, offset))
        offset += _aligned(_n_bytes(s, t))
    head = b"".join(out)
    return head.ljust(_aligned(len(head)), b"\0")


def _fill(data: Bytes, start: int, plan: Plan, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tiles: dict[tuple[Type, int], Bytes] = {}
    for s, t in plan:
        n = _n_bytes(s, t)
        target = data[start : start + n]
        start += _aligned(n)
        if len(s.ne) == 1:  # norms and factors
            target.view(np.float32)[:] = 1.0
            continue
        key = (t, s.ne[0])
        if key not in tiles:
            tiles[key] = random_blocks(t, TILE_BYTES // t.size_bytes, s.ne[0], rng)
        for at in itertools.count(0, len(tiles[key])):
            if at >= n:
                break
            part = target[at : at + len(tiles[key])]
            part[:] = tiles[key][: len(part)]
