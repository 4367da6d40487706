"""The codebooks of the iq formats: as they are committed, and as the library has them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import gguf
import numpy as np
import pytest
from harness import Case, operand, packed, result, row_of, run
from quant_data import random_weights

SCRIPT = Path(__file__).parent.parent.parent / "native" / "tools" / "grids.py"
FORMATS = ("iq1_m", "iq1_s", "iq2_s", "iq2_xs", "iq2_xxs", "iq3_s", "iq3_xxs")


def test_the_committed_file_is_what_the_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("grids", SCRIPT)
    assert spec is not None and spec.loader is not None
    grids = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(grids)
    assert grids.TARGET.read_text() == grids.source()


@pytest.mark.parametrize("name", FORMATS)
def test_every_entry_under_every_sign_is_exact(name: str) -> None:
    """32768 indices and more: each of at most 2048 entries is met 16 times on average."""
    rng, rows, k = np.random.default_rng(5), 64, 4096
    raw = random_weights(rng, name, rows, k)
    table, ids = packed(raw, name, (k, rows)), operand(np.arange(rows, dtype=np.int32))
    got = run(row_of("get_rows", name).index, Case([table, ids], result("f32", (k, rows))))
    want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[name.upper()])
    assert got == np.ascontiguousarray(want, np.float32).tobytes()
