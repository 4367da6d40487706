"""Files that are not GGUF, or not sound: each is refused with words that say what and where."""

from __future__ import annotations

import os
import re
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import gguf_writer
import pytest
from gguf_writer import Writer

from llamapy.base.errors import FileError
from llamapy.loader.gguf import GGUF

U64 = 2**64 - 1


def string(s: bytes, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(s) if length is None else length) + s


def claimed_string(length: int) -> bytes:
    return Writer().raw_key(string(b"k") + struct.pack("<I", 8) + string(b"x" * 100, length)).blob()


def claimed_array(item: str, count: int) -> bytes:
    return Writer().array("k", item, [0] * 100, count=count).blob()


def dims(n_dims: int) -> bytes:
    return Writer().tensor("t.weight", (1, 1), n_dims=n_dims).blob()


def shape(ne: tuple[int, ...], type_: int = 0, data: bytes = bytes(64)) -> bytes:
    return Writer().tensor("t.weight", ne, type_, data).blob()


def two(second: str = "b", offset: int | None = None) -> bytes:
    w = Writer().tensor("a", (8,)).tensor(second, (8,), offset=offset)
    return w.tensor("c", (8,), offset=None if offset is None else 64).blob()


def safetensors() -> bytes:
    head = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return string(head) + bytes(4)


LFS = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818\nsize 253113024\n"
)

NOT_GGUF = {  # G01: name: (bytes, words of the message)
    "empty": (b"", ["empty", "0 bytes"]),
    "GGU": (b"GGU", ["ends after 3 bytes", "magic"]),
    "G": (b"G", ["ends after 1 bytes", "magic"]),
    "magic alone": (b"GGUF", ["header", "expected 24 bytes, found 4"]),
    "html": (b"<!DOCTYPE html>" + b" " * 185, ["web page (HTML)"]),
    "html in small letters": (b"\n\n<html><head>", ["web page (HTML)"]),
    "xml": (b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code>", ["XML", "error answer"]),
    "json": (b'{"error": "Repository not found"}', ["JSON", "error answer"]),
    "lfs": (LFS, ["Git LFS pointer", "git lfs pull"]),
    "zip": (b"PK\x03\x04" + bytes(100), ["zip archive"]),
    "pytorch zip": (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl" + bytes(99), ["PyTorch"]),
    "pickle": (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", ["pickle", "PyTorch"]),
    "safetensors": (safetensors(), ["safetensors"]),
    "ggml": (b"lmgg" + bytes(100), ["before GGUF", "'ggml'"]),
    "ggmf": (b"fmgg" + bytes(100), ["before GGUF", "'ggmf'"]),
    "ggjt": (b"tjgg" + bytes(100), ["before GGUF", "'ggjt'"]),
    "ggla": (b"algg" + bytes(100), ["LoRA", "'ggla'"]),
    "gzip": (b"\x1f\x8b\x08" + bytes(100), ["gzip"]),
    "tar": (b"m.gguf".ljust(257, b"\0") + b"ustar\x0000", ["tar archive"]),
    "elf": (b"\x7fELF" + bytes(100), ["ELF", "llamafile"]),
    "zeros": (bytes(4096), ["zeros", "download"]),
    "anything": (b"hello, world", ["not a GGUF file", "b'hell'", "b'GGUF'"]),
}

MALFORMED = {
    # G02: count bombs
    "G02 tensors 2^64-1": (Writer(n_tensors=U64).blob(), ["tensor count", "byte 8", str(U64)]),
    "G02 keys 2^64-1": (Writer(n_keys=U64).blob(), ["key count", "byte 16", str(U64)]),
    "G02 keys 2^40": (Writer(n_keys=2**40).blob(), ["key count", "at most 0", str(2**40)]),
    "G02 one key too many": (
        Writer(n_keys=2).u32("k", 1).raw_key(bytes(9)).blob(),
        ["key 2 of 2", "byte 41", "name is empty"],
    ),
    # G03: length bombs
    "G03 string 2^30": (claimed_string(2**30), ["'k'", "byte 37", "at most", str(2**30)]),
    "G03 string 2^63": (claimed_string(2**63), ["'k'", "byte 37", "at most", str(2**63)]),
    "G03 string 2^64-1": (claimed_string(U64), ["'k'", "byte 37", str(U64)]),
    "G03 name 2^63": (Writer().raw_key(string(b"k", 2**63)).blob(), ["key 1 of 1", str(2**63)]),
    "G03 array 2^30 u8": (claimed_array("u8", 2**30), ["'k'", "element count", str(2**30)]),
    "G03 array 2^61 u64": (claimed_array("u64", 2**61), ["'k'", "element count", str(2**61)]),
    "G03 array 2^64-1 f32": (claimed_array("f32", U64), ["'k'", "element count", str(U64)]),
    "G03 strings 2^60": (
        Writer().strings("k", ["a"], count=2**60).blob(),
        ["'k'", "element count", str(2**60)],
    ),
    "G03 string in an array": (
        Writer()
        .raw_key(string(b"k") + struct.pack("<IIQ", 9, 8, 2) + string(b"a") + string(b"b", 2**62))
        .blob(),
        ["'k'", "string 1 of 2", "byte 58"],
    ),
    # G05: dimensions
    **{
        f"G05 n_dims {n}": (dims(n), ["'t.weight'", "dimensions at byte 40", f"found {n}"])
        for n in (5, 9, 10**6, 0xFFFFFFFF)
    },
    # G06: products that wrap
    "G06 [2^62+1, 4]": (shape((2**62 + 1, 4)), ["'t.weight'", "too large", str(2**62 + 1)]),
    "G06 [2^42+1, 2^22]": (shape((2**42 + 1, 2**22)), ["'t.weight'", "too large"]),
    "G06 [2^64-1, 2]": (shape((U64, 2)), ["'t.weight'", "too large", str(U64)]),
    "G06 [2^63, 0]": (shape((2**63, 0)), ["'t.weight'", "too large"]),
    "G06 bytes wrap": (shape((2**62,)), ["'t.weight'", "too large", str(2**64)]),
    # G08: alignment
    **{
        f"G08 alignment {n}": (
            Writer().u32("general.alignment", n).blob(),
            ["general.alignment", f"found '{n}' as u32", "power of two"],
        )
        for n in (0, 13, 2**30, 2**31)
    },
    "G08 alignment as i32": (
        Writer().i32("general.alignment", 32).blob(),
        ["general.alignment", "found '32' as i32", "as u32"],
    ),
    "G08 alignment as text": (
        Writer().text("general.alignment", "32").blob(),
        ["general.alignment", "as string"],
    ),
    # G09: duplicates
    "G09 keys": (
        Writer().u32("some.key", 1).u32("some.key", 1).blob(),
        ["'some.key'", "twice", "byte 24", "byte 48"],
    ),
    "G09 tensors": (two("a"), ["'a'", "twice", "byte 24", "byte 57"]),
    # G10
    "G10 empty key": (Writer().u32("", 1).blob(), ["key 1 of 1", "byte 24", "empty"]),
    # G23: version
    **{
        f"G23 version {n}": (Writer(version=n).blob(), ["version at byte 4", f"found {n}"])
        for n in (0, 1, 4, 1000)
    },
    "G23 big-endian": (
        Writer(order=">").u32("a", 1).blob(),
        ["version", "big-endian file of version 3"],
    ),
    # PEER section 8, what is left of it
    "value type 13": (
        Writer().raw_key(string(b"k") + struct.pack("<I", 13)).blob(),
        ["'k'", "type at byte 33", "found 13"],
    ),
    "nested array": (
        Writer().raw_key(string(b"k") + struct.pack("<IIQ", 9, 9, 0)).blob(),
        ["'k'", "byte 37", "array of arrays"],
    ),
    "array of type 99": (
        Writer().raw_key(string(b"k") + struct.pack("<IIQ", 9, 99, 0)).blob(),
        ["'k'", "byte 37", "found 99"],
    ),
    "name of 64 bytes": (
        Writer().tensor("n" * 64, (1,)).blob(),
        ["name at byte 24", "at most 63", "found 64"],
    ),
    "name not UTF-8": (Writer().tensor(b"\xff", (1,)).blob(), ["'\\\\xff'", "not UTF-8"]),
    "key not UTF-8": (Writer().u32(b"\xff", 1).blob(), ["'\\\\xff'", "not UTF-8"]),
    "type 4": (shape((32,), 4), ["'t.weight'", "found 4", "q4_2", "removed"]),
    "type 31": (shape((32,), 31), ["'t.weight'", "found 31", "q4_0_4_4", "removed"]),
    "type 43": (shape((32,), 43), ["'t.weight'", "byte 52", "found 43"]),
    "type of ours": (shape((32,), 1000), ["'t.weight'", "found 1000"]),
    "row of 33 q4_0": (shape((33,), 2), ["'t.weight'", "multiple of 32", "q4_0", "found 33"]),
    "row of 128 q4_K": (shape((128,), 12), ["'t.weight'", "multiple of 256", "found 128"]),
    "gap": (two(offset=64), ["'b'", "expected 32", "found 64", "a gap"]),
    "overlap": (two(offset=0), ["'b'", "expected 32", "found 0", "an overlap"]),
    "offset 2^63": (two(offset=2**63), ["'b'", "too large", str(2**63)]),
    "offset not padded": (two(offset=33), ["'b'", "expected 32", "found 33"]),
    "two files joined": (gguf_writer.small().blob() * 2, ["second GGUF", "joined"]),
}

ALL = {**NOT_GGUF, **MALFORMED}


@pytest.fixture
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def refused(path: Path) -> str:
    with pytest.raises(FileError) as e:
        GGUF.open(path)
    message = str(e.value)
    assert e.value.exit_code == 3
    assert message.startswith(f"{path}: ")
    assert message.isprintable(), "one line without control characters"
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", ALL)
@pytest.mark.usefixtures("little_memory")
def test_refused_by_name(tmp_path: Path, name: str) -> None:
    blob, words = ALL[name]
    path = tmp_path / "m.gguf"
    path.write_bytes(blob)
    message = refused(path)
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize("name", MALFORMED)
def test_lenient_lists_the_problem(tmp_path: Path, name: str) -> None:
    blob, words = MALFORMED[name]
    path = tmp_path / "m.gguf"
    path.write_bytes(blob)
    if "version" in name or "endian" in name:
        with pytest.raises(FileError):
            GGUF.open(path, lenient=True)
        return
    with GGUF.open(path, lenient=True) as g:
        assert g.problems
        assert any(all(word in p for word in words) for p in g.problems), g.problems


@pytest.fixture
def cuts() -> dict[str, tuple[int, list[str]]]:
    """Where a sound file is cut, and what must be said of it."""
    w = gguf_writer.small()
    whole, head = w.blob(), len(w.head())
    key = whole.index(b"tokenizer.ggml.bos_token_id")
    row = whole.index(b"blk.1.attn_q.weight")
    embd = 64 * 8 // 32 * 34
    return {
        "inside header": (20, ["header", "expected 24 bytes, found 20"]),
        "inside key name": (key + 3, ["key 36 of", f"byte {key - 8}", "cut short"]),
        "inside key value": (key + 27 + 4 + 2, ["bos_token_id", "value", "found 2"]),
        "inside a row's name": (row + 3, ["tensor 5 of 7", f"byte {row - 8}", "cut short"]),
        "inside a row": (row + 19 + 4 + 3, ["'blk.1.attn_q.weight'", "expected 28 bytes, found 3"]),
        "at data start": (
            head,
            ["'token_embd.weight'", f"bytes {head} to {head + embd}", "7 of 7 tensors"],
        ),
        "inside the first": (head + 100, ["'token_embd.weight'", "7 of 7 tensors"]),
        "1 byte before the end": (
            len(whole) - 1,
            ["'output.weight'", "1 bytes are missing", "1 of 7"],
        ),
    }  # fmt: skip


def test_truncated(tmp_path: Path, cuts: dict[str, tuple[int, list[str]]]) -> None:
    """G12. The data of `small` needs no padding at its end."""
    whole = gguf_writer.small().blob()
    for name, (at, words) in cuts.items():
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(whole[:at])
        message = refused(path)
        assert [word for word in words if word not in message] == [], f"{name}: {message}"


def test_a_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = gguf_writer.small(n_layer=1).blob()
    path = tmp_path / "m.gguf"
    for at in [*range(2000), *range(2000, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:at])
        refused(path)
    path.write_bytes(whole)
    GGUF.open(path).close()


def test_zero_dimension_is_legal(tmp_path: Path) -> None:
    """G07."""
    blob = Writer().tensor("t.weight", (4, 0)).blob()
    assert len(blob) == 96
    path = tmp_path / "m.gguf"
    path.write_bytes(blob)
    with GGUF.open(path) as g:
        assert g.tensors["t.weight"].ne == (4, 0, 1, 1)
        assert g.tensors["t.weight"].n_bytes == 0


@pytest.mark.parametrize(
    ("kind", "words"),
    [("missing", "No such file"), ("folder", "a directory"), ("pipe", "not a regular file")],
)
def test_what_cannot_be_opened(tmp_path: Path, kind: str, words: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    assert words in refused(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_unreadable(tmp_path: Path) -> None:
    path = gguf_writer.small().save(tmp_path / "m.gguf")
    path.chmod(0)
    assert "Permission denied" in refused(path)


def test_odd_path_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nb.gguf"
    path.write_bytes(b"GGU")
    with pytest.raises(FileError, match=re.escape("a\\nb.gguf")):
        GGUF.open(path)


def test_lenient_keeps_what_was_read(tmp_path: Path) -> None:
    w = gguf_writer.small()
    whole = w.blob()
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[: whole.index(b"blk.1.attn_q.weight")])
    with GGUF.open(path, lenient=True) as g:
        assert g.keys["llama.block_count"] == 2
        assert len(g.tensors) == 4
        assert len(g.problems) == 1
        with pytest.raises(FileError, match="token_embd"):
            g.data(g.tensors["token_embd.weight"])
    path.write_bytes(whole[: len(w.head()) + 600])
    with GGUF.open(path, lenient=True) as g:
        assert len(g.tensors) == 7
        assert len(g.problems) == 1
        assert len(g.data(g.tensors["token_embd.weight"])) == 544
        with pytest.raises(FileError, match="output"):
            g.data(g.tensors["output.weight"])
