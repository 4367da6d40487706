"""A model whose weights are no numbers: perplexity stops at once and says where it begins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import speaking_model

from llamapy.cli.main import main
from llamapy.loader.gguf import GGUF

TEXT = b"the end of the affair " * 20


@pytest.mark.parametrize(
    ("tensor", "value", "says"),
    [
        ("blk.1.attn_norm", np.inf, "first in attn_norm of blk.1"),
        ("blk.0.ffn_norm", np.inf, "first in ffn_norm of blk.0"),
        ("blk.1.ffn_down.weight", np.nan, "of blk.1"),
        ("output_norm.weight", np.nan, "first in result_norm"),
        ("output.weight", np.nan, "first in result_output"),
    ],
)
def test_where_it_begins(
    tensor: str, value: float, says: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = speaking_model.write(tmp_path / "m")
    with GGUF.open(path) as file:
        at = file.tensors[tensor].offset
    raw = bytearray(path.read_bytes())
    raw[at + 20 : at + 24] = np.float32(value).tobytes()
    path.write_bytes(raw)
    (tmp_path / "text").write_bytes(TEXT)
    chunks = tmp_path / "chunks"
    args = ["perplexity", "-m", str(path), "-f", str(tmp_path / "text"), "-c", "32"]
    assert main([*args, "--chunks-out", str(chunks)]) == 8
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1, err
    assert "NaN or Inf in the logits of chunk 1, position 16: " in err and says in err
    assert chunks.read_bytes().count(b"\n") == 1
