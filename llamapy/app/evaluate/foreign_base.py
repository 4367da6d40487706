"""A base as llama-perplexity writes it (--save-all-logits): the log-probabilities of every scored
token in 16 bits, those more than 16 below the largest cut off.

`_logits_`; i32 n_ctx, n_vocab, n_chunk; i32 tokens [n_chunk * n_ctx]; for every scored token f32
scale, f32 smallest log-probability, u16 codes [n_vocab, one more if that is odd]. It does not say
of which model or vocabulary, and has no checksum.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from llamapy.app.evaluate.base import Base
from llamapy.app.evaluate.perplexity import Place
from llamapy.app.evaluate.windows import Windows
from llamapy.base.closing import Closing
from llamapy.base.errors import FileError, UsageError
from llamapy.ffi.kept import Beside, Bytes, beside, keep
from llamapy.ffi.softmax import Ints, Rows, Workers

MAGIC = b"_logits_"
_SAMPLE = 1 << 16


def open_base(path: str, model: Any) -> Base | ForeignBase:
    """The base in a file, whoever wrote it."""
    try:
        with open(path, "rb") as f:
            foreign = f.read(len(MAGIC)) == MAGIC
    except OSError as e:
        raise FileError(f"cannot read {path}: {e.strerror}") from e
    return ForeignBase(path, model) if foreign else Base(path, model)


class ForeignBase(Closing):
    """As Base."""

    def __init__(self, path: str, model: Any) -> None:
        self.path = path
        self._file = open(path, "rb")  # noqa: SIM115
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self.w = self._windows(model)
        except BaseException:
            self.close()
            raise
        self._found: dict[int, list[Beside]] = {}

    def close(self) -> None:
        self._file.close()

    def _bad(self, what: str) -> FileError:
        return FileError(f"{self.path}: a file of llama-perplexity that {what}")

    def _windows(self, model: Any) -> Windows:
        head = self._file.read(20)
        n_ctx, n_vocab, n_chunks = struct.unpack("<8x3i", head.ljust(20, b"\0"))
        if n_ctx < 4 or n_vocab < 1 or n_chunks < 1 or 4 * n_ctx * n_chunks > self._size:
            raise self._bad(f"holds {n_chunks} windows of {n_ctx}")
        if n_vocab != model.hparams.n_vocab:
            raise UsageError(
                f"{self.path}: a base over {n_vocab} tokens; this model knows"
                f" {model.hparams.n_vocab}"
            )
        self._row = n_vocab + n_vocab % 2 + 4  # in u16
        self._start = 20 + 4 * n_ctx * n_chunks
        tokens = np.fromfile(self._file, "<i4", n_ctx * n_chunks).astype(np.int32)
        bos = model.tokenizer.bos if model.tokenizer.add_bos else None
        w = Windows(tokens, "llamacpp", n_ctx, n_ctx, n_chunks, bos)
        end = self._start + 2 * self._row * n_chunks * w.span(0).n_scored
        if self._size != end:
            raise self._bad(f"has {self._size} bytes and should have {end}")
        if tokens.min() < 0 or tokens.max() >= n_vocab:
            raise self._bad("has tokens that are none")
        self._n_vocab = n_vocab
        return w

    @property
    def about(self) -> dict[str, Any]:
        """Whose base it is, as far as it can be told: a hash of its size, beginning and end."""
        digest = hashlib.sha256(self._size.to_bytes(8, "little"))
        for at in (0, max(self._size - _SAMPLE, 0)):
            self._file.seek(at)
            digest.update(self._file.read(_SAMPLE))
        about = f"llama-perplexity {digest.hexdigest()}"
        return {"model": about, "type_k": "unknown", "type_v": "unknown"}

    def same_text(self, ids: Ints) -> bool:
        """The text went on: only what windows hold is kept."""
        return bool(np.array_equal(ids[: len(self.w.tokens)], self.w.tokens))

    def _record(self, window: int, i: int) -> Bytes:
        span = self.w.span(window)
        self._file.seek(self._start + 2 * self._row * (window * span.n_scored + i))
        row = np.fromfile(self._file, "<u2", self._row)
        if len(row) < self._row:
            raise self._bad("has become shorter")
        scale, least = row[:4].view("<f4").tolist()
        codes = row[4 : 4 + self._n_vocab]
        x = codes.astype(np.float32) * np.float32(scale) + np.float32(least)
        said = float(x[self.w.tokens[span.begin + span.first + i + 1]])
        x[codes == 0] = -np.inf  # cut off: among what is not kept
        top = float(x.max())
        if not (math.isfinite(scale) and math.isfinite(least) and -50 < top < 0.01 and scale >= 0):
            raise self._bad(f"is damaged in window {window + 1}")
        # What the logarithms are of are probabilities already: exp(x - top) adds up to exp(-top).
        rows = Rows(x[None], np.array([top], np.float32), np.array([math.exp(-top)]), [-top])
        return keep(rows, [-said])[0]

    def see(
        self, rows: Rows, nll: Sequence[float], places: Sequence[Place], workers: Workers
    ) -> None:
        found = beside(rows, [self._record(*place) for place in places], workers)
        if found is None:
            raise self._bad(f"is damaged in window {places[0][0] + 1}, or one after it")
        for (window, _), b in zip(places, found, strict=True):
            self._found.setdefault(window, []).append(b)

    def end(self, index: int) -> tuple[Beside, ...]:
        return tuple(self._found.pop(index))
