"""`llamapy inspect` on sound, odd and damaged files."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf_writer
import pytest
from gguf_writer import Writer

import llamapy
from llamapy.app.identity import model_hash
from llamapy.app.inspect import inspect
from llamapy.base.errors import FileError
from llamapy.cli.main import main
from llamapy.loader.gguf import GGUF
from llamapy.tokenize.vocab import read_vocab

ROOT = Path(llamapy.__file__).parent.parent
REFERENCE = Path(os.environ.get("LLAMAPY_REFERENCE", ROOT.parent / "shared" / "reference"))
VOCABS = sorted((REFERENCE / "vocab").glob("*.gguf"))


def run(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llamapy", "inspect", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return gguf_writer.small().save(tmp_path / "m.gguf")


def test_fields(small: Path) -> None:
    found = inspect(small, tensors=True)
    assert found["schema_version"] == 1
    assert found["path"] == str(small)
    assert found["size_bytes"] == small.stat().st_size
    assert (found["version"], found["alignment"]) == (3, 32)
    assert (found["architecture"], found["name"]) == ("llama", "small")
    assert (found["n_layer"], found["n_embd"], found["n_ff"]) == (2, 64, 96)
    assert (found["n_head"], found["n_head_kv"], found["n_expert"]) == (4, [2, 2], None)
    assert found["n_ctx_train"] == 128
    elements = [64 * 8, 64, 64 * 64, 64, 64 * 64, 64, 64 * 8]
    assert found["n_parameters"] == sum(elements)
    assert [row["type"] for row in found["types"]] == ["q4_0", "f16", "f32", "q8_0"]
    assert found["types"][0] == {
        "type": "q4_0",
        "n_tensors": 2,
        "n_elements": 2 * 64 * 64,
        "n_bytes": 2 * 64 * 2 * 18,
    }
    assert found["weight_bytes"] == 4608 + 1024 + 768 + 544
    assert found["bits_per_weight"] == round(8 * 6944 / sum(elements), 4)
    assert found["tokenizer"] == {
        "model": "llama",
        "pre": None,
        "n_tokens": 8,
        "n_merges": None,
        "types": {"normal": 4, "unknown": 1, "control": 2, "byte": 1},
        "special": {"bos": {"id": 1, "text": "<s>"}, "eos": {"id": 2, "text": "</s>"}},
        "end_of_generation": [{"id": 2, "text": "</s>"}],
        "add_bos": None,
        "add_eos": None,
    }
    assert found["chat_template"] is None
    assert found["split"] is None
    assert found["keys"]["tokenizer.ggml.tokens"] == {
        "type": "array[string]",
        "value": ["<unk>", "<s>", "</s>", "a", "b", "é", "\\xff", ""],
    }
    assert [t["name"] for t in found["tensors"]][:2] == [
        "token_embd.weight",
        "blk.0.attn_norm.weight",
    ]
    assert found["tensors"][0]["shape"] == [64, 8]
    assert (found["notes"], found["problems"]) == ([], [])
    json.dumps(found, allow_nan=False)


def test_odd_values(tmp_path: Path) -> None:
    w = Writer().text("general.architecture", "x").f32("x.a", float("nan"))
    w.array("x.b", "f32", [float("inf")] * 2).array("x.c", "u8", list(range(100)))
    w.text("tokenizer.chat_template", "{{ a }}").text("tokenizer.chat_template.tool", "{{ bb }}")
    w.u32("general.file_type", 15).text("general.name", "a\x1b[31mb\n")
    w.text("tokenizer.ggml.model", "gpt2").u32("tokenizer.ggml.bos_token_id", 7)
    w.array("x.block_count", "u32", [2, 3]).text("x.context_length", "many")
    found = inspect(w.save(tmp_path / "m.gguf"))
    assert found["keys"]["x.a"]["value"] == "nan"
    assert found["keys"]["x.b"]["value"] == ["inf", "inf"]
    assert found["keys"]["x.c"]["value"] == {"count": 100, "first": list(range(8))}
    assert found["chat_template"] == {"n_chars": {"": 7, "tool": 8}}
    assert found["file_type"] == "Q4_K_M"
    assert found["tokenizer"]["special"] == {"bos": {"id": 7, "text": None}}
    assert [note.split(":")[0] for note in found["notes"]] == [
        "a gpt2 (BPE) vocabulary without merges",
        "no key tokenizer.ggml.pre",
    ]
    json.dumps(found, allow_nan=False)
    done = run(tmp_path / "m.gguf")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert r"a\x1b[31mb\n" in done.stdout


def test_zero_dimension_loads(tmp_path: Path) -> None:
    path = Writer().tensor("t.weight", (4, 0)).save(tmp_path / "m.gguf")
    done = run(path, "--tensors")
    assert (done.returncode, done.stderr) == (0, "")
    assert "t.weight" in done.stdout
    assert "4 x 0" in done.stdout


def test_text(small: Path) -> None:
    done = run(small, "--tensors")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert (
        lines[0] == f"file          {small} ({small.stat().st_size / 1024:.1f} KiB, GGUF version 3)"
    )
    assert "architecture  llama" in lines
    assert "parameters    9.41K in 7 tensors" in lines
    assert "heads         4, for K and V 2 x 2" in lines
    assert "special       bos 1 '<s>', eos 2 '</s>'" in lines
    assert "chat template no" in lines
    assert sum(line.startswith("  blk.") for line in lines) == 4
    assert "\x1b" not in done.stdout


def test_json(small: Path) -> None:
    done = run(small, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == inspect(small)


def test_shards(tmp_path: Path) -> None:
    paths = gguf_writer.save_shards(tmp_path, "m", gguf_writer.small(), (4, 3))
    found = inspect(paths[1])
    assert found["n_tensors"] == 7
    assert found["split"]["count"] == 2
    assert [row["path"] for row in found["split"]["files"]] == list(map(str, paths))
    assert found["problems"] == []
    paths[0].unlink()
    found = inspect(paths[1])
    assert found["n_tensors"] == 3
    assert "m-00001-of-00002.gguf" in found["problems"][0]
    done = run(paths[1])
    assert done.returncode == 3
    assert "m-00001-of-00002.gguf" in done.stderr
    assert "split         2 shards" in done.stdout


def test_damaged_file_shows_what_can_be_read(tmp_path: Path) -> None:
    whole = gguf_writer.small().blob()
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[: whole.index(b"blk.1.attn_q.weight")])
    done = run(path, "--json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert (found["architecture"], found["n_tensors"]) == ("llama", 4)
    assert len(found["problems"]) == 1
    error = json.loads(done.stderr)["error"]
    assert error["code"] == 3
    assert error["message"] == found["problems"][0]
    done = run(path)
    assert done.returncode == 3
    assert "problems\n  " in done.stdout
    assert done.stderr.count("\n") == 1


DAMAGED: dict[str, bytes] = {
    "keys 2^64-1": Writer(n_keys=2**64 - 1).u32("a", 1).blob(),
    "tensors 2^64-1": Writer(n_tensors=2**64 - 1).u32("a", 1).blob(),
    "string 2^63": Writer()
    .u32("a", 1)
    .raw_key(struct.pack("<Q1sIQ", 1, b"k", 8, 2**63) + bytes(100))
    .blob(),
    "n_dims 9": Writer().u32("a", 1).tensor("t", (1, 1), n_dims=9).blob(),
    "too large": Writer().u32("a", 1).tensor("t", (2**62 + 1, 4), 0, bytes(16)).blob(),
    "alignment 13": Writer().u32("a", 1).u32("general.alignment", 13).blob(),
    "duplicate key": Writer().u32("a", 1).u32("a", 2).blob(),
    "empty key": Writer().u32("a", 1).u32("", 2).blob(),
    "truncated": gguf_writer.small().u32("a", 1).blob()[:-1],
}


@pytest.mark.parametrize("name", DAMAGED)
def test_every_damage(tmp_path: Path, name: str, capfdbinary: Any) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(DAMAGED[name])
    assert main(["inspect", str(path), "--json"]) == 3
    out, err = capfdbinary.readouterr()
    found = json.loads(out)
    assert found["keys"]["a"]["value"] == 1
    assert found["problems"]
    assert err.count(b"\n") == 1
    assert str(path) in json.loads(err)["error"]["message"]


@pytest.mark.parametrize("blob", [b"", b"GGU", b"<!DOCTYPE html>" + bytes(185), b"GGUF\1\0\0\0"])
def test_what_is_no_gguf(tmp_path: Path, blob: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(blob)
    with pytest.raises(FileError):
        inspect(path)
    done = run(path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"llamapy: error: {path}: ")


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert run(tmp_path / "none.gguf").returncode == 3
    assert run(tmp_path).returncode == 3
    assert run().returncode == 2


@pytest.mark.skipif(not VOCABS, reason=f"no reference vocabularies in {REFERENCE}")
@pytest.mark.parametrize("path", VOCABS, ids=lambda p: p.stem.removeprefix("ggml-vocab-"))
def test_reference_vocabularies(path: Path) -> None:
    found = inspect(path)
    assert found["problems"] == []
    assert found["architecture"]
    tokenizer = found["tokenizer"]
    assert tokenizer["n_tokens"] > 1000
    assert tokenizer["special"]
    assert all(row["text"] for row in tokenizer["special"].values() if row["id"] >= 0)
    json.dumps(found, allow_nan=False)


def test_nothing_heavy_is_imported(small: Path) -> None:
    code = (
        "import sys\n"
        "from llamapy.cli.main import main\n"
        "assert main(['inspect', sys.argv[1], '--tensors']) == 0\n"
        "heavy = {'numpy', 'tokenizers', 'sentencepiece', 'jinja2', 'rich'}\n"
        "print('heavy:', sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(small)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.endswith("heavy: []\n")


def test_architectures_are_listed() -> None:
    out = run("--archs")
    assert out.returncode == 0 and out.stderr == ""
    assert [line for line in out.stdout.splitlines() if line.startswith("command-r ")]
    rows = json.loads(run("--archs", "--json").stdout)["architectures"]
    assert {"name": "qwen2", "cache": "K, V"}.items() <= next(
        row for row in rows if row["name"] == "qwen2"
    ).items()


def test_a_file_or_the_list(small: Path) -> None:
    assert run().returncode == 2
    assert run("--archs", small).returncode == 2


def vocabulary(kind: str = "gpt2", types: list[int] | None = None, width: str = "i32") -> Writer:
    tokens = ["a", "<|im_end|>", "x<|im_end|>", "<|endoftext|>", "</s>", "<|im_end|> ", b"\xff"]
    w = Writer().text("tokenizer.ggml.model", kind)
    w.strings("tokenizer.ggml.tokens", tokens)
    if types is not None:
        w.array("tokenizer.ggml.token_type", width, types)
    return w


def ends(path: Path) -> list[int]:
    tokenizer = inspect(path)["tokenizer"]
    assert tokenizer is not None
    return [row["id"] for row in tokenizer["end_of_generation"]]


@pytest.mark.parametrize("types", [None, [1, 3, 1, 3, 3, 1, 6], [1, 3, 1, 3, 1, 1, 6]])
def test_ends_are_those_of_the_tokenizer(tmp_path: Path, types: list[int] | None) -> None:
    w = vocabulary(types=types).u32("tokenizer.ggml.eos_token_id", 0)
    path = w.save(tmp_path / "m.gguf")
    with GGUF.open(path) as file:
        assert ends(path) == sorted(read_vocab(file, {}).eog)
    assert ends(path) == ([0, 1, 3, 4] if types and types[4] == 3 else [0, 1, 3])


def test_ends_by_convention_and_without(tmp_path: Path) -> None:
    assert ends(vocabulary("llama").save(tmp_path / "m.gguf")) == [1, 2, 3]
    w = vocabulary().u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFF)
    assert ends(w.save(tmp_path / "m.gguf")) == [1, 3]
    w = (
        vocabulary()
        .text("tokenizer.ggml.eos_token_id", "2")
        .flag("tokenizer.ggml.eot_token_id", True)
    )
    assert ends(w.save(tmp_path / "m.gguf")) == [1, 3]
    w = Writer().text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.tokens", "no array")
    assert ends(w.save(tmp_path / "m.gguf")) == []


@pytest.mark.parametrize("width", ["i32", "u8", "i64", "u16"])
def test_token_types(tmp_path: Path, width: str) -> None:
    def types(values: list[int], width: str = width) -> dict[str, int]:
        path = vocabulary(types=values, width=width).save(tmp_path / "m.gguf")
        found: dict[str, int] = inspect(path)["tokenizer"]["types"]
        return found

    known = {"normal": 2, "unknown": 1, "control": 1, "user_defined": 1, "unused": 1, "byte": 1}
    assert types([1, 2, 3, 4, 5, 6, 1]) == known
    assert types([1, 1, 9, 1]) == {"normal": 3, "9": 1}
    if width != "u8":
        assert types([1, 257]) == {"normal": 1, "257": 1}
    assert types([-1, 1], "i32") == {"-1": 1, "normal": 1}
    found = inspect(vocabulary().save(tmp_path / "m.gguf"))
    assert found["tokenizer"]["types"] is None


def test_hashes(small: Path, tmp_path: Path) -> None:
    assert "hashes" not in inspect(small)
    found = inspect(small, hashes=True)["hashes"]
    digest = hashlib.sha256(small.read_bytes()).hexdigest()
    assert found["files"] == [{"path": str(small), "sha256": digest}]
    with GGUF.open(small) as file:
        assert found["model"] == model_hash(file)
    out = run(small, "--hash").stdout
    assert f"sha256        {digest}\n" in out and f"hash          {found['model']}\n" in out
    paths = gguf_writer.save_shards(tmp_path, "s", gguf_writer.small(), (4, 3))
    sums = [row["sha256"] for row in inspect(paths[1], hashes=True)["hashes"]["files"]]
    assert sums == [hashlib.sha256(p.read_bytes()).hexdigest() for p in paths]
    small.write_bytes(small.read_bytes()[:1000])
    done = run(small, "--hash", "--json")
    assert done.returncode == 3 and json.loads(done.stdout)["hashes"]["files"]


def test_the_template_alone(tmp_path: Path) -> None:
    w = (
        Writer()
        .text("tokenizer.chat_template", "{{ 'é' }}\n\x1b")
        .text("tokenizer.chat_template.tool", "t")
    )
    path = w.save(tmp_path / "m.gguf")
    done = run(path, "--template")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "{{ 'é' }}\n\x1b\n")
    found = json.loads(run(path, "--template", "--json").stdout)["chat_template"]
    assert found == {"n_chars": {"": 11, "tool": 1}, "text": {"": "{{ 'é' }}\n\x1b", "tool": "t"}}
    assert "text" not in inspect(path)["chat_template"]
    path = Writer().text("tokenizer.chat_template.tool", "t").save(tmp_path / "m.gguf")
    done = run(path, "--template")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith("no chat template; of those with a name it has: tool (--json)\n")
