"""`llamapy verify`: sound files, damaged ones, numbers that are none, manifests."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gguf_writer
import numpy as np
import pytest
from gguf_writer import Writer

import llamapy
from llamapy.app.verify import stream
from llamapy.app.verify.verify import Finding, verify
from llamapy.base.errors import FileError, UsageError
from llamapy.base.paths import DEMO
from llamapy.cli.main import main
from llamapy.ffi.verify import Xxh64

ROOT = Path(llamapy.__file__).parent.parent


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BAD = load(ROOT / "tests" / "unit" / "test_gguf_malformed.py")


def sound() -> Writer:
    """gguf_writer.small, whose embedding has a scale of NaN, with another."""
    w = gguf_writer.small()
    w.rows[0].data = bytes(i % 99 for i in range(16 * 34))
    return w


def report(path: Path, manifest: Path | None = None) -> dict[str, Any]:
    *found, last = verify(path, None if manifest is None else str(manifest))
    assert isinstance(last, dict) and all(isinstance(f, Finding) for f in found)
    assert [f["text"] for f in last["findings"]] == [f.text for f in found]
    assert last["sound"] == (not found)
    json.dumps(last, allow_nan=False)
    return last


def xxh64(data: bytes) -> str:
    h = Xxh64()
    h.update(data)
    return h.hexdigest()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return sound().save(tmp_path / "m.gguf")


@pytest.mark.parametrize("piece", [1, 7, 100, 8 << 20])
def test_a_sound_file(small: Path, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE", piece)
    found = report(small)
    assert found["findings"] == [] and found["sound"]
    raw = small.read_bytes()
    (file,) = found["files"]
    assert file["sha256"] == hashlib.sha256(raw).hexdigest() and file["size_bytes"] == len(raw)
    rows = sound().rows
    assert [t["name"] for t in found["tensors"]] == [row.name.decode() for row in rows]
    assert [t["xxh64"] for t in found["tensors"]] == [xxh64(row.data) for row in rows]
    assert found["xxh64"] == xxh64(b"".join(row.data for row in rows))
    assert [t["n_blocks"] for t in found["tensors"]] == [16, 64, 128, 64, 128, 64, 512]


@pytest.mark.parametrize(("scale", "word"), [(0x7C00, "+Inf"), (0x7E00, "NaN"), (0xFC00, "-Inf")])
def test_a_scale_that_is_no_number(
    tmp_path: Path, scale: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """G14: the tensor and the block are named."""
    w = sound()
    data = bytearray(w.rows[2].data)
    data[18 * 77 : 18 * 77 + 2] = scale.to_bytes(2, "little")
    w.rows[2].data = bytes(data)
    path = w.save(tmp_path / "m.gguf")
    assert main(["verify", str(path)]) == 3
    out, err = capsys.readouterr()
    want = (
        f"{path}: tensor 'blk.0.attn_q.weight' (q4_0): block 77 (row 38, block 1 of it) has a "
        f"scale of {word}"
    )
    assert out.splitlines()[0] == want and out.splitlines()[-1] == "1 thing wrong"
    assert err == f"llamapy: error: {want}\n"


def test_numbers_of_floats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((4, 8), np.float32)
    x[2, 3], x[3, 7] = np.inf, np.nan
    w = Writer().tensor("a", (8, 4), "f32", x.tobytes())
    w.tensor("b", (8, 4), "f16", x.astype("<f2").tobytes())
    for piece in (13, 8 << 20):
        monkeypatch.setattr(stream, "PIECE", piece)
        found = report(w.save(tmp_path / "m.gguf"))
        assert [f["text"].partition(": ")[2] for f in found["findings"]] == [
            f"tensor '{name}' ({type_}): element 19 (row 2, place 3) is +Inf; 2 such numbers in all"
            for name, type_ in (("a", "f32"), ("b", "f16"))
        ]
        assert [(t["n_nonfinite"], t["first_nonfinite"]) for t in found["tensors"]] == [(2, 19)] * 2


@pytest.mark.parametrize("name", BAD.MALFORMED)
def test_every_malformed_file_has_findings(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    blob, words = BAD.MALFORMED[name]
    path = tmp_path / "m.gguf"
    path.write_bytes(blob)
    assert main(["verify", str(path)]) == 3
    out, err = capsys.readouterr()
    text = f"{out}{err}"
    assert all(any(word in line for line in text.splitlines()) for word in words), text
    assert "Traceback" not in text and len(err.splitlines()) == 1
    assert all(line.isprintable() for line in text.splitlines())


@pytest.mark.parametrize("name", BAD.NOT_GGUF)
def test_what_is_no_gguf(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(BAD.NOT_GGUF[name][0])
    with pytest.raises(FileError):
        list(verify(path))


def test_cut_anywhere(small: Path) -> None:
    raw = small.read_bytes()
    for n in [*range(24, len(raw), 211), len(raw) - 1]:
        small.write_bytes(raw[:n])
        found = report(small)
        assert found["findings"] and found["xxh64"] is None
        assert found["files"][0]["sha256"] == hashlib.sha256(raw[:n]).hexdigest()


def test_a_table_cannot_ask_for_more_work_than_the_file_has_bytes(tmp_path: Path) -> None:
    w = Writer()
    for i in range(50):
        w.tensor(f"t{i}", (256,), "f32", bytes(1024), offset=0)
    found = report(w.save(tmp_path / "m.gguf"))
    assert found["findings"] and "an overlap" in found["findings"][0]["text"]
    assert sum(t["xxh64"] is not None for t in found["tensors"]) == 1
    assert len(found["tensors"]) == 50 and found["xxh64"] is None


def test_a_tensor_of_nothing(tmp_path: Path) -> None:
    w = Writer().tensor("a", (4,)).tensor("t", (4, 0))
    found = report(w.save(tmp_path / "m.gguf"))
    assert found["sound"] and found["tensors"][1]["xxh64"] == "ef46db3751d8e999"


def test_shards(tmp_path: Path) -> None:
    whole = sound()
    paths = gguf_writer.save_shards(tmp_path, "m", whole, (3, 4))
    found = report(paths[1])
    assert found["sound"] and [f["path"] for f in found["files"]] == [str(p) for p in paths]
    assert [t["shard"] for t in found["tensors"]] == [0] * 3 + [1] * 4
    assert found["xxh64"] == xxh64(b"".join(row.data for row in whole.rows))
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    found = report(paths[0])
    assert not found["sound"] and len(found["files"]) == 2
    assert str(paths[1]) in found["findings"][0]["text"]
    paths[1].unlink()
    found = report(paths[0])
    assert len(found["files"]) == 1 and "missing" in found["findings"][0]["text"]
    paths[1].write_bytes(b"")
    found = report(paths[0])
    assert len(found["files"]) == 1 and any("empty" in f["text"] for f in found["findings"])


def test_vocabularies_that_do_not_agree(tmp_path: Path) -> None:
    w = Writer().strings("tokenizer.ggml.tokens", ["a", "b", "c"])
    w.array("tokenizer.ggml.scores", "f32", [0.0] * 2)
    w.array("tokenizer.ggml.token_type", "i32", [1] * 3)
    w.u32("tokenizer.ggml.eos_token_id", 3).u32("tokenizer.ggml.bos_token_id", 2)
    found = report(w.save(tmp_path / "m.gguf"))
    assert [(f["kind"], f["text"].partition(": ")[2]) for f in found["findings"]] == [
        ("vocabulary", "key tokenizer.ggml.scores: expected 3 values, one per token, found 2"),
        ("vocabulary", "key tokenizer.ggml.eos_token_id: expected a token from 0 to 2, found 3"),
    ]


def test_the_manifest_it_writes_is_the_one_it_reads(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = tmp_path / "m.manifest"
    assert main(["verify", str(small), "--tensors", "-o", str(manifest)]) == 0
    text = manifest.read_text()
    assert text.splitlines()[0] == (
        f"xxh64     {xxh64(sound().rows[0].data)}  {small}:token_embd.weight"
    )
    assert text.splitlines()[-1].endswith(f"  {small}") and len(text.splitlines()) == 8
    assert report(small, manifest)["sound"]
    capsys.readouterr()
    raw = bytearray(small.read_bytes())
    raw[-1] ^= 1  # the last weight of output.weight
    small.write_bytes(raw)
    found = report(small, manifest)
    assert [(f["kind"], f["tensor"]) for f in found["findings"]] == [
        ("checksum", "output.weight"),
        ("checksum", None),
    ]


def test_manifests_of_gguf_hash(small: Path, tmp_path: Path) -> None:
    rows = sound().rows
    lines = ["manifest  x  sha256  sha1  xxh64"]
    for row in rows:
        for kind in ("sha1", "sha256"):
            digest = hashlib.new(kind, row.data).hexdigest()
            lines.append(f"{kind:<8}  {digest}  other.gguf:{row.name.decode()}  -  Ok")
        lines.append(f"xxh3      0123456789abcdef  other.gguf:{row.name.decode()}")
    whole = hashlib.sha256(b"".join(row.data for row in rows)).hexdigest()
    lines += [f"sha256    {whole.upper()}  other.gguf", ""]
    manifest = tmp_path / "m"
    manifest.write_text("\n".join(lines))
    found = report(small, manifest)
    assert found["sound"] and found["notes"] == ["7 lines of the manifest are of other hashes"]
    manifest.write_text("\n".join([*lines[:-4], f"sha1  {'0' * 40}  other.gguf:gone", *lines[-3:]]))
    found = report(small, manifest)
    assert [f["tensor"] for f in found["findings"]] == ["gone"]
    manifest.write_text(f"sha1  {'0' * 40}  x.gguf:output.weight\nsha1  {'1' * 40}  x.gguf\n")
    found = report(small, manifest)
    assert len(found["findings"]) == 2 + 6  # and six tensors that it does not name


@pytest.mark.parametrize("text", ["", "hello", "sha256  abc  m.gguf", "\0" * 100])
def test_no_manifest(small: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "m"
    path.write_text(text)
    with pytest.raises(UsageError):
        report(small, path)
    with pytest.raises(UsageError, match="cannot read"):
        report(small, tmp_path / "gone")


def test_a_known_model_has_a_known_sum(small: Path) -> None:
    path = small.rename(small.with_name(DEMO.file))
    (finding,) = report(path)["findings"]
    assert finding["kind"] == "checksum" and DEMO.sha256 in finding["text"]


def test_progress_and_streams(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    list(verify(small, progress=lambda *at: seen.append(at)))
    size = small.stat().st_size
    assert seen == [(size, size)]
    assert main(["verify", str(small), "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sound"] and err == ""
    program = "import sys; from llamapy.cli.main import main; code = main(sys.argv[1:]); "
    program += "assert 'numpy' not in sys.modules; sys.exit(code)"
    command = [sys.executable, "-c", program, "verify", str(small)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, cwd=ROOT
    )
    assert (done.returncode, done.stderr) == (0, b"") and b"\x1b" not in done.stdout
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, timeout=60, cwd=ROOT
            )
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", [*BAD.MALFORMED, *BAD.NOT_GGUF])
def test_plan_refuses_what_cannot_be_loaded(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes((BAD.MALFORMED.get(name) or BAD.NOT_GGUF[name])[0])
    assert main(["plan", str(path)]) == 3
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and "Traceback" not in err
