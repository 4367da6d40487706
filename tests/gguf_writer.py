"""Writes GGUF bytes for tests, valid or broken on purpose; shares no code with our reader.

    w = Writer()
    w.text("general.architecture", "llama").u32("llama.block_count", 2)
    w.strings("tokenizer.ggml.tokens", ["a", b"\\xff"])
    w.tensor("output.weight", (64, 32))                # zeros, f32
    w.save(tmp_path / "m.gguf")

Every number that a reader must check can be set to something else: `Writer(version=, n_keys=,
n_tensors=)`, `tensor(n_dims=, offset=)`, `raw_key(bytes)`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

VALUE = {  # name: (id, struct letter)
    "u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"),
    "i32": (5, "i"), "f32": (6, "f"), "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"),
    "f64": (12, "d"),
}  # fmt: skip
STRING, ARRAY = 8, 9
TENSOR = {  # name: (id, elements per block, bytes per block)
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20),
    "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "q2_K": (10, 256, 84),
    "q3_K": (11, 256, 110), "q4_K": (12, 256, 144), "q5_K": (13, 256, 176),
    "q6_K": (14, 256, 210), "iq4_nl": (20, 32, 18), "i8": (24, 1, 1), "i32": (26, 1, 4),
    "bf16": (30, 1, 2),
}  # fmt: skip


@dataclass
class Row:
    """One row of the tensor table and its bytes."""

    name: bytes
    ne: tuple[int, ...]
    type_id: int
    data: bytes
    n_dims: int | None = None
    offset: int | None = None


def size_of(ne: Sequence[int], type_: str) -> int:
    _, block, n_bytes = TENSOR[type_]
    n = 1
    for v in ne:
        n *= v
    return n // block * n_bytes


def _bytes(s: str | bytes) -> bytes:
    return s.encode() if isinstance(s, str) else s


@dataclass
class Writer:
    """`order` is '<' or '>'; `pad_last` pads the last tensor as converters do."""

    version: int = 3
    alignment: int = 32
    n_keys: int | None = None
    n_tensors: int | None = None
    magic: bytes = b"GGUF"
    order: str = "<"
    pad_last: bool = True
    keys: list[bytes] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def _string(self, s: str | bytes) -> bytes:
        raw = _bytes(s)
        return struct.pack(self.order + "Q", len(raw)) + raw

    def raw_key(self, blob: bytes) -> Writer:
        """Bytes that stand where a key stands."""
        self.keys.append(blob)
        return self

    def key(self, name: str | bytes, type_: str, value: Any) -> Writer:
        """A number or bool of VALUE's type `type_`."""
        id_, letter = VALUE[type_]
        head = self._string(name) + struct.pack(self.order + "I", id_)
        return self.raw_key(head + struct.pack(self.order + letter, value))

    def array(
        self, name: str, type_: str, values: Sequence[Any], count: int | None = None
    ) -> Writer:
        """An array of numbers; `count` is what the file claims (default: the truth)."""
        id_, letter = VALUE[type_]
        n = len(values) if count is None else count
        head = self._string(name) + struct.pack(self.order + "IIQ", ARRAY, id_, n)
        return self.raw_key(head + struct.pack(f"{self.order}{len(values)}{letter}", *values))

    def text(self, name: str | bytes, value: str | bytes) -> Writer:
        head = self._string(name) + struct.pack(self.order + "I", STRING)
        return self.raw_key(head + self._string(value))

    def strings(self, name: str, values: Sequence[str | bytes], count: int | None = None) -> Writer:
        n = len(values) if count is None else count
        head = self._string(name) + struct.pack(self.order + "IIQ", ARRAY, STRING, n)
        return self.raw_key(head + b"".join(map(self._string, values)))

    def u16(self, name: str, value: int) -> Writer:
        return self.key(name, "u16", value)

    def u32(self, name: str, value: int) -> Writer:
        return self.key(name, "u32", value)

    def i32(self, name: str, value: int) -> Writer:
        return self.key(name, "i32", value)

    def f32(self, name: str, value: float) -> Writer:
        return self.key(name, "f32", value)

    def flag(self, name: str, value: bool) -> Writer:
        return self.key(name, "bool", value)

    def tensor(
        self,
        name: str | bytes,
        ne: Sequence[int],
        type_: str | int = "f32",
        data: bytes | None = None,
        *,
        n_dims: int | None = None,
        offset: int | None = None,
    ) -> Writer:
        """A tensor; zeros without `data`. A `type_` given as a number needs `data`."""
        if data is None:
            assert isinstance(type_, str)
            data = bytes(size_of(ne, type_))
        id_ = TENSOR[type_][0] if isinstance(type_, str) else type_
        self.rows.append(Row(_bytes(name), tuple(ne), id_, data, n_dims, offset))
        return self

    def _align(self, n: int) -> int:
        return (n + self.alignment - 1) // self.alignment * self.alignment

    def head(self) -> bytes:
        """Everything before the data, padded."""
        o = self.order
        n_tensors = len(self.rows) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        out = self.magic + struct.pack(o + "IQQ", self.version, n_tensors, n_keys)
        out += b"".join(self.keys)
        place = 0
        for row in self.rows:
            n_dims = len(row.ne) if row.n_dims is None else row.n_dims
            offset = place if row.offset is None else row.offset
            out += self._string(row.name) + struct.pack(o + "I", n_dims)
            out += struct.pack(f"{o}{len(row.ne)}Q", *row.ne)
            out += struct.pack(o + "IQ", row.type_id, offset)
            place += self._align(len(row.data))
        return out.ljust(self._align(len(out)), b"\0")

    def blob(self) -> bytes:
        out = self.head()
        for i, row in enumerate(self.rows):
            n = len(row.data)
            padded = self._align(n) if self.pad_last or i + 1 < len(self.rows) else n
            out += row.data.ljust(padded, b"\0")
        return out

    def save(self, path: Path | str) -> Path:
        path = Path(path)
        path.write_bytes(self.blob())
        return path


def save_shards(folder: Path, stem: str, whole: Writer, counts: Sequence[int]) -> list[Path]:
    """The tensors of `whole` over len(counts) shards, counts[i] in shard i; all keys in shard 0."""
    paths, first, n = [], 0, len(counts)
    for no, count in enumerate(counts):
        shard = Writer(alignment=whole.alignment)
        if no == 0:
            shard.keys = list(whole.keys)
        shard.u16("split.no", no).u16("split.count", n).i32("split.tensors.count", len(whole.rows))
        shard.rows = whole.rows[first : first + count]
        first += count
        paths.append(shard.save(folder / f"{stem}-{no + 1:05d}-of-{n:05d}.gguf"))
    assert first == len(whole.rows)
    return paths


def small(n_layer: int = 2) -> Writer:
    """A small valid file: keys of every type, a vocabulary of 8, some tensors of several types."""
    w = Writer()
    w.text("general.architecture", "llama").text("general.name", "small")
    w.u32("llama.block_count", n_layer).u32("llama.embedding_length", 64)
    w.u32("llama.context_length", 128).u32("llama.feed_forward_length", 96)
    w.u32("llama.attention.head_count", 4)
    w.array("llama.attention.head_count_kv", "i32", [2] * n_layer)
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    for i, type_ in enumerate(VALUE):
        w.key(f"test.{type_}", type_, True if type_ == "bool" else i + 1)
        values = [False, True] if type_ == "bool" else [i, i + 1, i + 2]
        w.array(f"test.array.{type_}", type_, values)
    w.text("tokenizer.ggml.model", "llama")
    w.strings("tokenizer.ggml.tokens", ["<unk>", "<s>", "</s>", "a", "b", "é", b"\xff", ""])
    w.array("tokenizer.ggml.scores", "f32", [-float(i) for i in range(8)])
    w.array("tokenizer.ggml.token_type", "i32", [2, 3, 3, 1, 1, 1, 6, 1])
    w.u32("tokenizer.ggml.bos_token_id", 1).u32("tokenizer.ggml.eos_token_id", 2)
    w.tensor("token_embd.weight", (64, 8), "q8_0", bytes(range(256)) * 2 + bytes(32))
    for il in range(n_layer):
        w.tensor(f"blk.{il}.attn_norm.weight", (64,), "f32", bytes([il]) * 256)
        w.tensor(f"blk.{il}.attn_q.weight", (64, 64), "q4_0", bytes([il + 1]) * (64 * 2 * 18))
    w.tensor("output_norm.weight", (64,), "f32")
    w.tensor("output.weight", (64, 8), "f16")
    return w
