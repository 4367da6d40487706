"""The ggml type table: id, name, elements per block, bytes per block.

Ids and block sizes are facts of the GGUF format. X8 and the `_r8` types are ours: activations
quantised for the integer dot products, and weights with rows interleaved by eight. They never stand
in a file, so their ids lie outside the range of GGUF's.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    """One element type. A row of `n` elements takes `n // block * size_bytes` bytes."""

    id: int
    name: str
    block: int
    size_bytes: int
    in_file: bool = True

    def row_bytes(self, n: int) -> int:
        """Bytes of a row of `n` elements; `n` must be a multiple of `block`."""
        if n % self.block:
            raise ValueError(f"row of {n} elements is not a multiple of {self.name}'s {self.block}")
        return n // self.block * self.size_bytes

    @property
    def quantised(self) -> bool:
        return self.block > 1


_IN_FILES: tuple[Type, ...] = (
    Type(0, "f32", 1, 4),
    Type(1, "f16", 1, 2),
    Type(2, "q4_0", 32, 18),
    Type(3, "q4_1", 32, 20),
    Type(6, "q5_0", 32, 22),
    Type(7, "q5_1", 32, 24),
    Type(8, "q8_0", 32, 34),
    Type(9, "q8_1", 32, 36),
    Type(10, "q2_K", 256, 84),
    Type(11, "q3_K", 256, 110),
    Type(12, "q4_K", 256, 144),
    Type(13, "q5_K", 256, 176),
    Type(14, "q6_K", 256, 210),
    Type(15, "q8_K", 256, 292),
    Type(16, "iq2_xxs", 256, 66),
    Type(17, "iq2_xs", 256, 74),
    Type(18, "iq3_xxs", 256, 98),
    Type(19, "iq1_s", 256, 50),
    Type(20, "iq4_nl", 32, 18),
    Type(21, "iq3_s", 256, 110),
    Type(22, "iq2_s", 256, 82),
    Type(23, "iq4_xs", 256, 136),
    Type(24, "i8", 1, 1),
    Type(25, "i16", 1, 2),
    Type(26, "i32", 1, 4),
    Type(27, "i64", 1, 8),
    Type(28, "f64", 1, 8),
    Type(29, "iq1_m", 256, 56),
    Type(30, "bf16", 1, 2),
    Type(34, "tq1_0", 256, 54),
    Type(35, "tq2_0", 256, 66),
    Type(39, "mxfp4", 32, 17),
    Type(40, "nvfp4", 64, 36),
    Type(41, "q1_0", 128, 18),
    Type(42, "q2_0", 64, 18),
)
# Whose rows can be interleaved by eight for the CPU's kernels (native/kernels/matmul/r8.h): those
# whose weights are looked up one by one in a grid cannot.
_INTERLEAVED = (
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl",
    "iq4_xs", "mxfp4", "nvfp4", "tq1_0", "tq2_0", "q1_0", "q2_0",
)  # fmt: skip
R8 = 2000  # added to the id of the plain type
TYPES: tuple[Type, ...] = (
    *_IN_FILES,
    Type(1000, "x8", 32, 40, in_file=False),
    *(
        Type(R8 + t.id, f"{t.name}_r8", t.block, t.size_bytes, in_file=False)
        for t in _IN_FILES
        if t.name in _INTERLEAVED
    ),
)

BY_ID: dict[int, Type] = {t.id: t for t in TYPES}
BY_NAME: dict[str, Type] = {t.name: t for t in TYPES}


def interleaved(t: Type) -> Type | None:
    """The type of the same weights with rows interleaved by eight, where there is one."""
    return BY_ID.get(R8 + t.id)


# What the rows of an attention cache may be, K and V independently.
CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")

F32 = BY_NAME["f32"]
F16 = BY_NAME["f16"]
I32 = BY_NAME["i32"]
X8 = BY_NAME["x8"]
