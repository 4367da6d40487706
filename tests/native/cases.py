"""CASES: per family of kernels, a generator of operands: (rng, row) -> list of Case.

Each group of kernels brings its own in a file cases_GROUP.py beside this one, as a dict `CASES`.
`rng` is a numpy Generator with a fixed seed per row; shapes must include odd ones (tails, one row,
one column, gaps between rows) and few elements: a family takes well under a second.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from harness import Case

from llamapy.ffi.lib import KernelRow

Generator = Callable[[np.random.Generator, KernelRow], list[Case]]


def _gather() -> dict[str, Generator]:
    found: dict[str, Generator] = {}
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        more: dict[str, Generator] = importlib.import_module(path.stem).CASES
        twice = found.keys() & more.keys()
        assert not twice, f"{path.name}: families {sorted(twice)} have a generator already"
        found |= more
    return found


CASES = _gather()
