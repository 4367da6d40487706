"""xxHash and the search for numbers that are none, against plain definitions."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as GgmlType

from llamapy.app.verify.numbers import NUMBERS, Scan, value_of
from llamapy.base.types import BY_ID, Type
from llamapy.ffi.verify import Xxh64, nonfinite
from llamapy.loader.table import TensorInfo

M = 2**64 - 1
P = (
    11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
    2870177450012600261,
)  # fmt: skip


def rotl(x: int, n: int) -> int:
    return (x << n | x >> (64 - n)) & M


def step(lane: int, x: int) -> int:
    return rotl((lane + x * P[1]) & M, 31) * P[0] & M


def xxh64(data: bytes) -> str:
    """As its specification has it, with Python's integers."""
    v, at, n = [(P[0] + P[1]) & M, P[1], 0, -P[0] & M], 0, len(data)
    for at in range(0, n - 31, 32):
        v = [
            step(v[i], int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little"))
            for i in range(4)
        ]
    at = n // 32 * 32
    x = P[4]
    if n >= 32:
        x = sum(rotl(v[i], r) for i, r in enumerate((1, 7, 12, 18))) & M
        for lane in v:
            x = ((x ^ step(0, lane)) * P[0] + P[3]) & M
    x = (x + n) & M
    for width, r, mul, add in ((8, 27, P[0], P[3]), (4, 23, P[1], P[2]), (1, 11, P[0], 0)):
        while n - at >= width:
            k = int.from_bytes(data[at : at + width], "little")
            k = step(0, k) if width == 8 else k * (P[0] if width == 4 else P[4]) & M
            x = (rotl(x ^ k, r) * mul + add) & M
            at += width
    x = (x ^ x >> 33) * P[1] & M
    x = (x ^ x >> 29) * P[2] & M
    return f"{x ^ x >> 32:016x}"


def test_xxhash_is_the_specified_one() -> None:
    rng = np.random.default_rng(0)
    for n in [*range(70), 1000, 4099]:
        data = rng.bytes(n)
        whole, pieces = Xxh64(), Xxh64()
        whole.update(data)
        at = 0
        while at < n:
            size = int(rng.integers(1, 50))
            pieces.update(memoryview(data)[at : at + size])
            at += size
        assert whole.hexdigest() == pieces.hexdigest() == xxh64(data)
    assert Xxh64().hexdigest() == "ef46db3751d8e999"


def test_nothing_outside_is_read() -> None:
    data = memoryview(bytes(100))
    for kind, at, n, stride in (
        ("f16", 0, 51, 2), ("f16", 1, 50, 2), ("f32", 0, 26, 4), ("e8m0", -1, 1, 1),
        ("iq1_m", 93, 1, 56), ("f16", 0, 2, 0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="numbers"):
            nonfinite(kind, data, at, n, stride)
    assert nonfinite("f16", data, 0, 0, 2) == (0, -1)
    assert nonfinite("f16", data, 98, 1, 2) == (0, -1)


def scan(t: Type, raw: bytes) -> Scan:
    n = len(raw) // t.size_bytes * t.block
    out = Scan(TensorInfo("t", t, (n, 1, 1, 1), 1, 0, len(raw)))
    out.up_to(memoryview(raw), len(raw))
    return out


# Without those that the gguf package does not dequantise, and the scale in pieces, see below.
OTHERS = ("q8_1", "q8_K", "q1_0", "q2_0", "iq1_m")
QUANTISED = [t.id for t in BY_ID.values() if t.in_file and t.quantised and t.name not in OTHERS]


@pytest.mark.parametrize("id_", QUANTISED, ids=lambda i: BY_ID[i].name)
def test_numbers_are_where_dequantising_reads_them(id_: int) -> None:
    """Every two bytes of a block set to NaN, the rest to random bits without one: the scan finds
    one exactly where the values of the block are no numbers."""
    t = BY_ID[id_]
    ones = bytes([0x11]) * t.size_bytes
    for at in range(t.size_bytes - 1):
        raw = bytearray(ones * 3)
        raw[t.size_bytes + at : t.size_bytes + at + 2] = b"\xff\x7f"
        with np.errstate(all="ignore"):
            values = gguf.dequantize(np.frombuffer(raw, np.uint8), GgmlType(id_))
        bad = not np.isfinite(values).all()
        found = scan(t, bytes(raw))
        if t.name == "mxfp4":
            bad = at == 0  # the format's NaN, which readers take for a large number
        assert (found.n > 0) == bad, at
        assert found.first == (1 if bad else None)


def test_a_scale_in_pieces() -> None:
    """iq1_m: all 16 bits of the scale, in the high nibbles of four words."""
    t = BY_ID[29]
    for bits in (0x7C00, 0xFC00, 0x7E01, 0x7BFF, 0x3C00, 0x0400):
        raw = bytearray(bytes([0x11]) * t.size_bytes * 2)
        for i in range(4):
            high = t.size_bytes + 49 + 2 * i
            raw[high] = raw[high] & 15 | (bits >> 4 * i & 15) << 4
        with np.errstate(all="ignore"):
            values = gguf.dequantize(np.frombuffer(raw, np.uint8), GgmlType(29))
        found = scan(t, bytes(raw))
        assert (found.n > 0) == (not np.isfinite(values).all()), hex(bits)
        if found.n:
            want = float(np.uint16(bits).view(np.float16))
            assert found.what == ("NaN" if want != want else "+Inf" if want > 0 else "-Inf")


@pytest.mark.parametrize(
    ("name", "raw", "n"),
    [
        ("f32", np.array([1, -np.inf, np.nan], "<f4").tobytes(), 2),
        ("f16", np.array([1, 2, np.inf], "<f2").tobytes(), 1),
        ("bf16", bytes.fromhex("803f80ff"), 1),
        ("f64", np.array([np.nan, 0.0], "<f8").tobytes(), 1),
        ("q8_K", np.array([np.inf], "<f4").tobytes() + bytes(288), 1),
        ("q8_1", bytes.fromhex("0000007c") + bytes(32), 1),
        ("q1_0", bytes.fromhex("00fc") + bytes(16), 1),
        ("q2_0", bytes.fromhex("017c") + bytes(16), 1),
        ("i32", b"\xff" * 16, 0),
        ("nvfp4", b"\x7f" * 36, 0),
    ],
)
def test_other_types(name: str, raw: bytes, n: int) -> None:
    t = next(t for t in BY_ID.values() if t.name == name)
    assert scan(t, raw).n == n and (name in NUMBERS) == (name not in ("i32", "nvfp4"))


def test_the_numbers_of_every_type_are_known() -> None:
    known = {*NUMBERS, "nvfp4", "i8", "i16", "i32", "i64"}
    assert known == {t.name for t in BY_ID.values() if t.in_file}


def test_values_in_words() -> None:
    assert value_of("f16", memoryview(b"\x00\x7c")) == "+Inf"
    assert value_of("bf16", memoryview(b"\x80\xff")) == "-Inf"
    assert value_of("e8m0", memoryview(b"\xff")) == "NaN"
