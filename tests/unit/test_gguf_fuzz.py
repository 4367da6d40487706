"""Random damage to a small valid file: a FileError or a file that reads, never anything else."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import gguf_writer
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llamapy.base.errors import FileError
from llamapy.loader.gguf import GGUF

WHOLE = gguf_writer.small(n_layer=1).blob()
HEAD = len(gguf_writer.small(n_layer=1).head())
U64S = [0, 1, 2**31, 2**32, 2**40, 2**61, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1]

byte_changes = st.lists(st.tuples(st.integers(0, HEAD - 1), st.integers(0, 255)), max_size=8)
word_changes = st.lists(st.tuples(st.integers(0, HEAD - 8), st.sampled_from(U64S)), max_size=2)
cut = st.one_of(st.none(), st.integers(0, len(WHOLE)))
bounded = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("fuzz") / "m.gguf"


def damaged(changes: list[tuple[int, int]], words: list[tuple[int, int]], end: int | None) -> bytes:
    blob = bytearray(WHOLE)
    for at, value in changes:
        blob[at] = value
    for at, value in words:
        struct.pack_into("<Q", blob, at, value)
    return bytes(blob[:end])


def read_all(g: GGUF) -> None:
    """Touch everything that is decoded late."""
    for name, value in g.keys.items():
        g.keys.type_of(name)
        if hasattr(value, "tolist"):
            assert len(value.tolist()) == len(value)
    for t in g.tensors.values():
        if g.problems and t.offset + t.n_bytes > g.size_bytes:
            continue
        assert len(g.data(t)) == t.n_bytes


@bounded
@given(byte_changes, word_changes, cut)
def test_damage_is_a_file_error_or_readable(
    path: Path, changes: list[tuple[int, int]], words: list[tuple[int, int]], end: int | None
) -> None:
    path.write_bytes(damaged(changes, words, end))
    tracemalloc.start()
    try:
        try:
            with GGUF.open(path) as g:
                read_all(g)
                sound = True
        except FileError as e:
            assert str(e).isprintable()
            sound = False
        try:
            with GGUF.open(path, lenient=True) as g:
                read_all(g)
                assert sound == (not g.problems)
        except FileError:
            assert not sound
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


@bounded
@given(st.binary(max_size=600))
def test_any_bytes_after_a_header(path: Path, tail: bytes) -> None:
    n_tensors, n_keys = len(tail) % 5, len(tail) % 7
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, n_tensors, n_keys) + tail)
    try:
        with GGUF.open(path) as g:
            read_all(g)
    except FileError as e:
        assert str(e).isprintable()
