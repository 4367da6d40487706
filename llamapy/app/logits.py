"""Logits of given tokens, written row by row: the file may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from llamapy.app.fit import fit
from llamapy.app.generate import Prefill
from llamapy.app.sizes import ContextSettings
from llamapy.base.errors import NumericError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsSettings(ContextSettings):
    """`last`: of the last token alone."""

    last: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The end: shape of the array, graphs built and reused."""

    shape: tuple[int, int]
    n_ctx: int
    n_built: int
    n_reused: int
    isa: str
    n_threads: int


def parse_tokens(text: str) -> list[int]:
    """`"1,2,3"` as ids."""
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise UsageError(f"--tokens: expected numbers such as 1,2,3, got '{text}'") from None


def read_tokens(path: Path) -> list[int]:
    """Ids from a one-dimensional .npy of integers, or a file of little-endian int32 (.i32)."""
    try:
        if path.suffix == ".npy":
            array = np.load(path, allow_pickle=False)
        elif path.suffix == ".i32":
            array = np.fromfile(path, "<i4")
        else:
            raise UsageError(f"{path}: a file of tokens is .npy or .i32")
    except (OSError, ValueError) as e:
        raise UsageError(f"{path}: cannot be read as tokens: {e}") from e
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise UsageError(f"{path}: expected one axis of integers, got {array.dtype}{array.shape}")
    if path.suffix == ".i32" and path.stat().st_size % 4:
        raise UsageError(f"{path}: {path.stat().st_size} bytes are no whole number of int32")
    return [int(i) for i in array]


def write_logits(
    model: Any, ids: list[int], out: BinaryIO, settings: LogitsSettings
) -> Iterator[Prefill | Written]:
    """Write float32 `[n_tokens, n_vocab]` (`[1, n_vocab]` with `last`) to `out` in .npy format. Of
    a model with an encoder, which reads `ids`: of the token that every answer begins with.

    UsageError for no tokens or one outside the vocabulary, ContextError when they do not fit,
    NumericError for logits that are no numbers.
    """
    s = settings
    if not ids:
        raise UsageError("no tokens to evaluate")
    plan = fit(ids, n_predict=0, n_ctx=s.n_ctx, n_ctx_train=model.hparams.n_ctx_train)
    stacks = model.hparams.stacks
    shape = (1 if s.last or stacks.n_dec else len(ids), model.hparams.n_vocab)
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    with model.context(**s.of_context(n_ctx=plan.n_ctx)) as ctx:
        with getattr(ctx, "interruptible", nullcontext)():
            if stacks.n_dec:
                ctx.encode(ids)
                ids = [stacks.start]
            for at, chunk, rows in _rows(ctx, ids, min(s.n_ubatch, s.n_batch), s.last):
                _check(rows, at)
                out.write(np.ascontiguousarray(rows, "<f4").data)
                yield Prefill(at + len(chunk), len(ids))
        counters = ctx.counters
        yield Written(shape, plan.n_ctx, counters.built, counters.reused, ctx.isa, ctx.n_threads)


def _rows(ctx: Any, ids: list[int], step: int, last: bool) -> Iterator[tuple[int, list[int], Any]]:
    """Chunk by chunk: its place, its tokens, their logits `[n_outputs, n_vocab]`."""
    for at in range(0, len(ids), step):
        chunk = ids[at : at + step]
        final = at + len(chunk) == len(ids)
        asked = "all" if not last else "last" if final else "none"
        yield at, chunk, ctx.decode(chunk, logits=asked)


def _check(rows: Any, first: int) -> None:
    if len(rows):
        bad = np.flatnonzero(~np.isfinite(rows.max(axis=1)))
        if len(bad):
            raise NumericError(f"NaN or Inf in the logits of token {first + int(bad[0])}")
