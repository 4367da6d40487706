"""Models in several files: any shard opens the whole, and what is wrong with them is said."""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path

import gguf_writer
import pytest

from llamapy.base.errors import FileError
from llamapy.loader.splits import open_model

WHOLE = gguf_writer.small()
COUNTS = (0, 4, 3)  # the first shard may hold keys only


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return gguf_writer.save_shards(tmp_path, "m", WHOLE, COUNTS)


def refused(path: Path) -> str:
    with pytest.raises(FileError) as e:
        open_model(path)
    assert str(e.value).isprintable()
    return str(e.value)


def set_key(path: Path, key: bytes, value: bytes) -> None:
    """Overwrite a number in place."""
    blob = bytearray(path.read_bytes())
    at = blob.index(key) + len(key) + 4
    blob[at : at + len(value)] = value
    path.write_bytes(blob)


@pytest.mark.parametrize("which", [0, 1, 2, "folder"])
def test_any_shard_opens_the_model(shards: list[Path], which: int | str) -> None:
    path = shards[0].parent if which == "folder" else shards[int(which)]
    with open_model(path) as files:
        assert len(files.shards) == 3
        assert files.path == shards[0]
        assert files.get_int("llama.block_count") == 2
        assert files.get_int("split.no") == 0
        assert list(files.tensors) == [row.name.decode() for row in WHOLE.rows]
        assert [t.shard for t in files.tensors.values()] == [1] * 4 + [2] * 3
        for row in WHOLE.rows:
            assert bytes(files.data(files.tensors[row.name.decode()])) == row.data
        assert files.size_bytes == sum(os.path.getsize(p) for p in shards)


def test_plain_file(tmp_path: Path) -> None:
    path = WHOLE.save(tmp_path / "plain.gguf")
    for asked in (path, tmp_path):
        with open_model(asked) as files:
            assert len(files.shards) == 1
            assert files.path == path
            assert len(files.tensors) == len(WHOLE.rows)


def test_missing_shards_are_all_named(shards: list[Path]) -> None:
    shards[1].unlink()
    for asked in (shards[0], shards[2], shards[0].parent):
        message = refused(asked)
        assert "m-00002-of-00003.gguf" in message
        assert "missing" in message
    shards[0].unlink()
    message = refused(shards[2])
    assert "missing in the same folder: m-00001-of-00003.gguf, m-00002-of-00003.gguf" in message


def test_asking_for_a_missing_one(shards: list[Path]) -> None:
    shards[1].unlink()
    assert "No such file" in refused(shards[1])


def test_wrong_count(shards: list[Path]) -> None:
    set_key(shards[1], b"split.count", struct.pack("<H", 4))
    message = refused(shards[0])
    assert str(shards[1]) in message
    assert "split.count: expected 3, by the file's name, found 4" in message


def test_wrong_number(shards: list[Path]) -> None:
    shutil.copy(shards[2], shards[1])
    message = refused(shards[0])
    assert str(shards[1]) in message
    assert "split.no: expected 1, by the file's name, found 2" in message


def test_wrong_total(shards: list[Path]) -> None:
    set_key(shards[0], b"split.tensors.count", struct.pack("<i", 8))
    message = refused(shards[0])
    assert "split.tensors.count: expected 7, tensors in all 3 shards together, found 8" in message


def test_one_tensor_in_two_shards(tmp_path: Path) -> None:
    w = gguf_writer.Writer().tensor("a", (4,)).tensor("b", (4,)).tensor("a", (4,))
    paths = gguf_writer.save_shards(tmp_path, "m", w, (2, 1))
    message = refused(paths[0])
    assert message.startswith(f"{paths[1]}: tensor 'a'")
    assert paths[0].name in message


def test_joined_by_cat(shards: list[Path]) -> None:
    joined = shards[0].parent / "joined.gguf"
    first = len(shards[0].read_bytes())
    joined.write_bytes(b"".join(p.read_bytes() for p in shards))
    message = refused(joined)
    assert f"a second GGUF starts at byte {first}" in message
    assert "joined" in message


def test_empty_shard(shards: list[Path]) -> None:
    shards[1].write_bytes(b"")
    message = refused(shards[0])
    assert str(shards[1]) in message
    assert "empty" in message


def test_renamed_shard(shards: list[Path]) -> None:
    path = shards[1].rename(shards[1].with_name("model.gguf"))
    message = refused(path)
    assert "shard 2 of 3" in message
    assert "-00002-of-00003.gguf" in message


def test_number_beyond_the_count(shards: list[Path]) -> None:
    path = shards[1].rename(shards[1].with_name("m-00004-of-00003.gguf"))
    assert "shard 4 of 3" in refused(path)


def test_damaged_shard_closes_all(shards: list[Path]) -> None:
    blob = shards[2].read_bytes()
    shards[2].write_bytes(blob[:-1])
    assert "1 bytes are missing" in refused(shards[0])
    if os.path.exists("/proc/self/maps"):
        assert "-of-00003.gguf" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    "names",
    [
        ("m.gguf.part1of3", "m.gguf.part2of3", "m.gguf.part3of3"),
        ("m.gguf-split-a", "m.gguf-split-b", "m.gguf-split-c"),
        ("m.gguf.aa", "m.gguf.ab", "m.gguf.ac"),
        ("m.gguf.001", "m.gguf.002", "m.gguf.003"),
        ("m.gguf.part8", "m.gguf.part9", "m.gguf.part10"),
    ],
)
def test_pieces_cut_at_some_byte(tmp_path: Path, names: tuple[str, ...]) -> None:
    blob = WHOLE.blob()
    for i, name in enumerate(names):
        (tmp_path / name).write_bytes(blob[i * 3000 : (i + 1) * 3000 if i < 2 else None])
    line = f"cat {' '.join(str(tmp_path / n) for n in names)} > {tmp_path / 'm.gguf'}"
    for asked in (*(tmp_path / name for name in names), tmp_path):
        message = refused(asked)
        assert "3 pieces" in message
        assert message.endswith(line)
    os.system(line)
    with open_model(tmp_path / "m.gguf") as files:
        assert len(files.tensors) == len(WHOLE.rows)


def test_a_lone_piece(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf.part2of3"
    path.write_bytes(bytes(range(100)))
    assert "other pieces" in refused(path)


def test_a_whole_file_named_as_a_piece_opens(tmp_path: Path) -> None:
    with open_model(WHOLE.save(tmp_path / "m.gguf.1")) as files:
        assert len(files.tensors) == len(WHOLE.rows)


def test_folders(tmp_path: Path) -> None:
    assert "no GGUF file" in refused(tmp_path)
    WHOLE.save(tmp_path / "a.gguf")
    WHOLE.save(tmp_path / "b.gguf")
    message = refused(tmp_path)
    assert "2 models" in message
    assert "a.gguf, b.gguf" in message
