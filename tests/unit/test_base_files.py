"""Files appear whole or not at all; models are found where they lie; the log keeps its promises."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from llamapy.base import paths
from llamapy.base.atomic import atomic_write
from llamapy.base.errors import FileError, LlamapyError, UsageError
from llamapy.base.log import WARNINGS, Log, to_stderr


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with atomic_write(target) as f:
        f.write(b"new")
        assert not target.exists()
    assert target.read_bytes() == b"new" and os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), atomic_write(target) as f:
        f.write(b"half")
        raise KeyboardInterrupt
    assert target.read_bytes() == b"old" and os.listdir(tmp_path) == ["a"]


def test_mode_and_links_survive(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    with atomic_write(tmp_path / "link") as f:
        f.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "real").stat().st_mode & 0o777 == 0o640


def test_a_device_is_written_directly() -> None:
    with atomic_write("/dev/null") as f:
        f.write(b"x")
    assert not Path("/dev/null").is_file()


@pytest.mark.parametrize(
    ("name", "says"), [("no/x", "cannot write .*/no/x: No such file"), (".", "Is a directory")]
)
def test_what_cannot_be_written_is_named(name: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says), atomic_write(tmp_path / name):
        pass


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLAMAPY_CACHE", "LLAMAPY_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.models_dir() == tmp_path / ".cache" / "llamapy" / "models"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert paths.cache_dir() == tmp_path / ".cache" / "llamapy"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert paths.cache_dir() == Path("/x/llamapy")
    monkeypatch.setenv("LLAMAPY_CACHE", "/own")
    assert paths.models_dir() == Path("/own/models")
    monkeypatch.setenv("LLAMAPY_MODELS", "/m")
    assert (paths.cache_dir(), paths.models_dir()) == (Path("/own"), Path("/m"))


def test_a_model_of_the_wrong_length_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMAPY_MODELS", str(tmp_path))
    path = tmp_path / paths.DEMO.file
    assert paths.find_model(paths.DEMO) is None
    path.write_bytes(b"GGUF")
    assert paths.find_model(paths.DEMO) is None
    os.truncate(path, paths.DEMO.size_bytes)
    assert paths.find_model(paths.DEMO) == path


@pytest.fixture
def log() -> Log:
    made = Log()
    made.lines = []  # type: ignore[attr-defined]
    made.sink = made.lines.append  # type: ignore[attr-defined]
    return made


def test_silent_by_default(log: Log) -> None:
    log.info("a")
    log.debug("b")
    log.warn("W04", "c")
    log.note("d")
    assert log.lines == ["llamapy: W04: c", "llamapy: d"]  # type: ignore[attr-defined]
    log.setup(level=2)
    log.info("a")
    log.debug("b")
    assert log.lines[2:] == ["llamapy: a", "llamapy: b"]  # type: ignore[attr-defined]


def test_strict_raises_the_error_of_the_row(log: Log) -> None:
    log.setup(strict=True)
    with pytest.raises(FileError, match=r"W01: x .*--strict"):
        log.warn("W01", "x")


def test_lines_as_json(log: Log) -> None:
    log.setup(json=True)
    log.warn("W04", "c")
    log.error(FileError("x\ny"))
    lines = [json.loads(line) for line in log.lines]  # type: ignore[attr-defined]
    assert lines[0] == {"warning": {"code": "W04", "message": "c"}}
    assert lines[1] == {"error": {"code": 3, "kind": "FileError", "message": "x y"}}


def test_warnings_are_numbered_without_gaps() -> None:
    assert list(WARNINGS) == [f"W{i:02}" for i in range(1, len(WARNINGS) + 1)]


def test_a_broken_stderr_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            raise BrokenPipeError

    for stream in (None, io.TextIOWrapper(io.BufferedWriter(Broken()), write_through=True)):
        monkeypatch.setattr("sys.stderr", stream)
        to_stderr("lost")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_said_once() -> None:
    for size in (1, 1 << 20):  # what a buffer holds back, and what it does not
        with (
            pytest.raises(LlamapyError, match="cannot write to /dev/full: No space left"),
            atomic_write("/dev/full") as f,
        ):
            try:
                f.write(bytes(size))
            except OSError as e:
                raise LlamapyError(f"cannot write to /dev/full: {e.strerror}") from e
