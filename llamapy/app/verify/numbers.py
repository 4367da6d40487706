"""Where the blocks of each type hold numbers that can be NaN or infinite, and which of them are."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from llamapy.ffi.verify import nonfinite
from llamapy.loader.table import TensorInfo

# (how it is written, first byte in the block). What stands in no row has no such number: whole
# numbers, and nvfp4, whose scales are finite whatever their bits.
NUMBERS: dict[str, tuple[tuple[str, int], ...]] = {
    "f32": (("f32", 0),),
    "f16": (("f16", 0),),
    "bf16": (("bf16", 0),),
    "f64": (("f64", 0),),
    **{
        name: (("f16", 0),)
        for name in (
            "q4_0", "q5_0", "q8_0", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s",
            "iq4_nl", "iq4_xs", "q1_0", "q2_0",
        )
    },
    **{name: (("f16", 0), ("f16", 2)) for name in ("q4_1", "q5_1", "q8_1", "q4_K", "q5_K")},
    "q2_K": (("f16", 80), ("f16", 82)),
    "q3_K": (("f16", 108),),
    "q6_K": (("f16", 208),),
    "q8_K": (("f32", 0),),
    "iq1_m": (("iq1_m", 48),),
    "tq1_0": (("f16", 52),),
    "tq2_0": (("f16", 64),),
    "mxfp4": (("e8m0", 0),),
}  # fmt: skip


@dataclass(slots=True)
class Scan:
    """Over the blocks of one tensor, some at a time. `n`: numbers that are none so far; `first`:
    the block that has the first of them."""

    info: TensorInfo
    done: int = 0
    n: int = 0
    first: int | None = None
    what: str = ""

    def up_to(self, view: memoryview, end: int) -> None:
        """Look at the blocks that end at or before byte `end` of the file."""
        t = self.info.type
        done = (min(end, self.info.offset + self.info.n_bytes) - self.info.offset) // t.size_bytes
        start = self.info.offset + self.done * t.size_bytes
        blocks = view[start : self.info.offset + done * t.size_bytes]
        found = []
        for kind, at in NUMBERS.get(t.name, ()):
            n, first = nonfinite(kind, blocks, at, done - self.done, t.size_bytes)
            self.n += n
            if n:
                found.append((first, kind, at))
        if found and self.first is None:
            first, kind, at = min(found)
            self.first = self.done + first
            self.what = value_of(kind, blocks[first * t.size_bytes + at :])
        self.done = done

    def where(self) -> str:
        """Of the first: which block, or element, of which row."""
        assert self.first is not None
        t, per_row = self.info.type, self.info.ne[0] // self.info.type.block
        row, place = divmod(self.first, per_row)
        if not t.quantised:
            return f"element {self.first} (row {row}, place {place}) is {self.what}"
        return f"block {self.first} (row {row}, block {place} of it) has a scale of {self.what}"


def n_blocks(info: TensorInfo) -> int:
    return info.n_elements // info.type.block


def value_of(kind: str, raw: memoryview) -> str:
    """A number that is none, in words."""
    if kind == "e8m0":
        return "NaN"
    if kind == "iq1_m":
        d = sum((raw[2 * i + 1] >> 4) << 4 * i for i in range(4))
        return value_of("f16", memoryview(d.to_bytes(2, "little")))
    if kind == "bf16":
        return value_of("f32", memoryview(bytes((0, 0, raw[0], raw[1]))))
    letter = {"f16": "e", "f32": "f", "f64": "d"}[kind]
    (x,) = struct.unpack_from(f"<{letter}", raw)
    return "NaN" if x != x else "+Inf" if x > 0 else "-Inf"
