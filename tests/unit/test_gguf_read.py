"""Reading sound GGUF files: values of every type, tensors, what stays valid, what is not loaded."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import gguf_writer
import pytest
from gguf_writer import Writer

from llamapy.base.errors import FileError
from llamapy.ffi import memory
from llamapy.loader.gguf import GGUF
from llamapy.loader.values import NumberArray, StringArray

TOKENS = [b"<unk>", b"<s>", b"</s>", b"a", b"b", "é".encode(), b"\xff", b""]


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return gguf_writer.small().save(tmp_path / "small.gguf")


@pytest.fixture(params=["native", "python"])
def scan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the native scan, and as it is without the library."""
    if request.param == "python":
        monkeypatch.setattr(memory, "_native_scan", lambda: None)
    elif memory._native_scan() is None:
        pytest.skip("the native library is not built")
    return str(request.param)


def test_values_of_every_type(small: Path, scan: str) -> None:
    with GGUF.open(small) as g:
        assert g.version == 3
        assert g.alignment == 32
        assert g.size_bytes == os.path.getsize(small)
        assert g.get_str("general.architecture") == "llama"
        for i, type_ in enumerate(gguf_writer.VALUE):
            want = True if type_ == "bool" else i + 1
            assert g.keys[f"test.{type_}"] == want
            assert type(g.keys[f"test.{type_}"]) is (
                bool if type_ == "bool" else float if type_[0] == "f" else int
            )
            assert g.keys.type_of(f"test.{type_}") == type_
            array = g.keys[f"test.array.{type_}"]
            assert isinstance(array, NumberArray)
            assert list(array) == ([False, True] if type_ == "bool" else [i, i + 1, i + 2])
            assert array[-1] == list(array)[-1]
            assert array[1:] == list(array)[1:]
            assert g.keys.type_of(f"test.array.{type_}") == f"array[{type_}]"
        tokens = g.get_strings("tokenizer.ggml.tokens")
        assert isinstance(tokens, StringArray)
        assert list(tokens) == TOKENS
        assert [tokens[i] for i in range(-8, 0)] == TOKENS
        assert tokens[2:5] == TOKENS[2:5]
        at = tokens.offsets
        assert [bytes(tokens.raw[at[i] : at[i + 1] - 8]) for i in range(8)] == TOKENS
        with pytest.raises(IndexError):
            tokens[8]


def test_negative_and_extreme_numbers(tmp_path: Path) -> None:
    w = Writer().key("a", "i8", -128).key("b", "u64", 2**64 - 1).key("c", "i64", -(2**63))
    w.key("d", "f64", 1e300).array("e", "i16", [-32768, 32767]).array("f", "f32", [])
    w.strings("g", [])
    with GGUF.open(w.save(tmp_path / "m.gguf")) as g:
        assert [g.keys[k] for k in "abcd"] == [-128, 2**64 - 1, -(2**63), 1e300]
        assert list(g.keys["e"]) == [-32768, 32767]
        assert list(g.keys["f"]) == []
        assert list(g.keys["g"]) == []
        assert g.tensors == {}


def test_tensors(small: Path) -> None:
    whole = small.read_bytes()
    with GGUF.open(small) as g:
        assert [t.name for t in g.tensors.values()] == list(g.tensors)
        assert list(g.tensors)[:3] == [
            "token_embd.weight",
            "blk.0.attn_norm.weight",
            "blk.0.attn_q.weight",
        ]
        embd = g.tensors["token_embd.weight"]
        assert (embd.type.name, embd.ne, embd.n_dims) == ("q8_0", (64, 8, 1, 1), 2)
        assert embd.n_bytes == 64 * 8 // 32 * 34
        assert embd.n_elements == 512
        assert bytes(g.data(embd)) == bytes(range(256)) * 2 + bytes(32)
        q = g.tensors["blk.1.attn_q.weight"]
        assert bytes(g.data(q)) == bytes([2]) * q.n_bytes
        assert whole[q.offset : q.offset + q.n_bytes] == bytes(g.data(q))
        assert q.offset % g.alignment == 0
        assert g.n_trailing == 0


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096, 1 << 20])
def test_other_alignments(tmp_path: Path, alignment: int) -> None:
    w = Writer(alignment=alignment).u32("general.alignment", alignment)
    w.tensor("a", (3,), data=b"abcdefghijkl").tensor("b", (1,), data=b"1234")
    with GGUF.open(w.save(tmp_path / "m.gguf")) as g:
        assert bytes(g.data(g.tensors["a"])) == b"abcdefghijkl"
        assert bytes(g.data(g.tensors["b"])) == b"1234"
        assert g.tensors["b"].offset % alignment == 0


def test_version_2_and_odd_shapes(tmp_path: Path) -> None:
    w = Writer(version=2).tensor("scalar", (), data=b"\0\0\x80\x3f").tensor("t", (4, 3, 2, 2))
    w.tensor("none", (4, 0))
    with GGUF.open(w.save(tmp_path / "m.gguf")) as g:
        assert g.version == 2
        assert (g.tensors["scalar"].ne, g.tensors["scalar"].n_bytes) == ((1, 1, 1, 1), 4)
        assert g.tensors["t"].ne == (4, 3, 2, 2)
        assert g.tensors["none"].n_bytes == 0
        assert bytes(g.data(g.tensors["none"])) == b""


def test_last_tensor_without_padding(tmp_path: Path) -> None:
    w = Writer(pad_last=False).tensor("a", (3,), data=b"abcdefghijkl")
    with GGUF.open(w.save(tmp_path / "m.gguf")) as g:
        assert bytes(g.data(g.tensors["a"])) == b"abcdefghijkl"


def test_text_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    with GGUF.open(Writer().text("general.name", b"caf\xe9").save(tmp_path / "m.gguf")) as g:
        assert g.get_str("general.name") == "caf\\xe9"


def test_getters(small: Path) -> None:
    with GGUF.open(small) as g:
        assert g.get_int("llama.block_count") == 2
        assert g.get_int("no.such", 7) == 7
        assert g.get_float("llama.attention.layer_norm_rms_epsilon") == pytest.approx(1e-5)
        assert g.get_float("no.such", 0.5) == 0.5
        assert g.get_bool("test.bool") is True
        assert g.get_str("no.such", "x") == "x"
        assert g.get_array("no.such", ()) == ()
        assert list(g.get_numbers("tokenizer.ggml.token_type"))[0] == 2
        assert g.per_layer("llama.attention.head_count_kv", 2) == (2, 2)
        assert g.per_layer("llama.attention.head_count", 3) == (4, 4, 4)
        assert g.per_layer("no.such", 2, 1) == (1, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: g.get_int("no.such"), ["no.such", "missing", "an integer"]),
        (lambda g: g.get_int("general.name"), ["general.name", "an integer", "string"]),
        (lambda g: g.get_int("test.bool"), ["test.bool", "an integer", "bool"]),
        (lambda g: g.get_float("test.u32"), ["test.u32", "a float", "u32"]),
        (lambda g: g.get_str("test.u32"), ["test.u32", "a string", "u32"]),
        (lambda g: g.get_bool("test.u8"), ["test.u8", "a bool", "u8"]),
        (lambda g: g.get_array("test.u8"), ["test.u8", "an array", "u8"]),
        (
            lambda g: g.get_strings("tokenizer.ggml.scores"),
            ["tokenizer.ggml.scores", "an array of strings", "array[f32]"],
        ),
        (
            lambda g: g.per_layer("llama.attention.head_count_kv", 3),
            ["llama.attention.head_count_kv", "3 of them", "found 2"],
        ),
        (lambda g: g.per_layer("general.name", 2), ["general.name", "a number or an array"]),
        (lambda g: g.per_layer("test.f32", 2, 1), ["test.f32", "int per layer", "f32"]),
        (lambda g: g.per_layer("no.such", 2), ["no.such", "missing"]),
    ],
)
def test_getters_name_what_is_wrong(small: Path, call: object, words: list[str]) -> None:
    with GGUF.open(small) as g, pytest.raises(FileError) as e:
        call(g)  # type: ignore[operator]
    assert all(word in str(e.value) for word in [str(small), *words]), str(e.value)


def n_fds(path: Path) -> int:
    fds = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(fd) == os.path.realpath(path) for fd in fds)


def n_maps(path: Path) -> int:
    return Path("/proc/self/maps").read_text().count(str(path))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_leaks(small: Path) -> None:
    for _ in range(100):
        with GGUF.open(small) as g:
            list(g.get_strings("tokenizer.ggml.tokens"))
    assert n_maps(small) == 0
    assert n_fds(small) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_is_held_stays_valid_after_close(small: Path) -> None:
    g = GGUF.open(small)
    tokens = g.get_strings("tokenizer.ggml.tokens")
    data = g.data(g.tensors["blk.1.attn_q.weight"])
    g.close()
    g.close()
    assert list(tokens) == TOKENS
    assert data[0] == 2
    assert n_maps(small) == 1
    del tokens, data
    assert n_maps(small) == 0
    with pytest.raises(ValueError, match="closed"):
        _ = g.view


def test_many_strings(tmp_path: Path, scan: str) -> None:
    words = [struct.pack("<I", i)[: i % 5] for i in range(5000)]
    with GGUF.open(Writer().strings("s", words).save(tmp_path / "m.gguf")) as g:
        assert list(g.keys["s"]) == words


def test_nothing_heavy_is_imported(small: Path) -> None:
    code = (
        "import sys\n"
        "from llamapy.loader.gguf import GGUF\n"
        "with GGUF.open(sys.argv[1]) as g: list(g.keys.values())\n"
        "print(sorted({'numpy', 'tokenizers', 'sentencepiece', 'jinja2'} & set(sys.modules)))"
    )
    run = [sys.executable, "-c", code, str(small)]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout == "[]\n"
