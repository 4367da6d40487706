"""The tensors an architecture asks for against those of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gguf_writer
import pytest

from llamapy.base.errors import FileError
from llamapy.loader.gguf import GGUF
from llamapy.loader.spec import TensorSpec, match


@pytest.fixture
def small(tmp_path: Path) -> Iterator[GGUF]:
    with GGUF.open(gguf_writer.small().save(tmp_path / "m.gguf")) as g:
        yield g


def specs() -> list[TensorSpec]:
    out = [TensorSpec("token_embd.weight", (64, 8), None, "input", op="get_rows")]
    for il in range(2):
        out.append(TensorSpec(f"blk.{il}.attn_norm.weight", (64,), il, "layer", op="mul"))
        out.append(TensorSpec(f"blk.{il}.attn_q.weight", (64, 64), il, "layer"))
        out.append(TensorSpec(f"blk.{il}.attn_q.bias", (64,), il, "layer", required=False))
    out.append(TensorSpec("output_norm.weight", (64,), None, "output"))
    out.append(TensorSpec("output.weight", (64, 8, 1), None, "output", required=False))
    return out


def test_all_found(small: GGUF) -> None:
    m = match(small, specs())
    assert list(m.found) == list(small.tensors)
    assert m.absent == ("blk.0.attn_q.bias", "blk.1.attn_q.bias")
    assert m.unused == ()
    assert m.n_bytes == sum(t.n_bytes for t in small.tensors.values())
    placed = m.to_place()
    assert [p.name for p in placed] == list(m.found)
    assert (placed[0].role, placed[0].layer, placed[0].op) == ("input", None, "get_rows")
    assert placed[1].layer == 0
    assert placed[0].n_bytes == 544


def test_missing_is_named(small: GGUF) -> None:
    more = [TensorSpec(f"blk.{i}.ffn_up.weight", (64, 96), i, "layer") for i in range(2)]
    with pytest.raises(FileError) as e:
        match(small, [*specs(), *more])
    assert str(e.value) == (
        f"{small.path}: tensor 'blk.0.ffn_up.weight': missing, expected one of shape [64, 96] "
        "(and 1 more tensors)"
    )


@pytest.mark.parametrize("ne", [(64, 9), (8, 64), (64,), (64, 8, 2)])
def test_wrong_shape_is_named(small: GGUF, ne: tuple[int, ...]) -> None:
    with pytest.raises(FileError) as e:
        match(small, [TensorSpec("token_embd.weight", ne, None, "input")])
    assert str(e.value) == (
        f"{small.path}: tensor 'token_embd.weight': expected shape {list(ne)}, found [64, 8]"
    )


def test_unasked_for_is_returned(small: GGUF) -> None:
    kept = [s for s in specs() if "attn_q" not in s.name]
    m = match(small, kept)
    assert m.unused == ("blk.0.attn_q.weight", "blk.1.attn_q.weight")
    assert match(small, kept, ["blk.*.attn_q.weight"]).unused == ()
    assert match(small, kept, ["blk.0.attn_q.weight"]).unused == ("blk.1.attn_q.weight",)
