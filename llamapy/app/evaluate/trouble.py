"""Logits that are no numbers: where in the model does that begin?"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.devices.cpu.device import CpuProgram
from llamapy.graph.compiled import Compiled
from llamapy.runtime.batch import single, split


class _Found(Exception):
    """The name of a node."""


def first_without_numbers(ctx: Any, ids: npt.NDArray[np.int32]) -> str:
    """`": first in attn_q of blk.3"`, found by computing the tokens anew, one node after the other;
    empty where it cannot be found. The context has forgotten everything then."""
    if not hasattr(ctx, "process_ubatch"):
        return ""
    ctx.clear()
    batch = single(ids, 0, 0, "last")
    try:
        for ubatch in split(batch, min(ctx.params.n_ubatch, ctx.params.n_batch), ctx.memory.cut):
            ctx.process_ubatch(ubatch, _watched)
    except _Found as e:
        name, layer = re.fullmatch(r"(.*?)(?:-(\d+))?(?: \(x8\))?", str(e)).groups()  # type: ignore[union-attr]
        return f": first in {name}" + ("" if layer is None else f" of blk.{layer}")
    return ""


def _watched(compiled: Compiled) -> None:
    for program in compiled.programs[0]:
        if not isinstance(program, CpuProgram):
            program.run()
            continue
        for name, values in program.watch():
            if values is not None and not (values < np.inf).all():  # nor is NaN
                raise _Found(name)
