"""How well a model foretells a text: windows of tokens, of each the later part scored.

Method `llamacpp`: windows of n_ctx side by side, what follows the last whole one left out; where
the vocabulary adds BOS, it stands in place of each window's first token; the predictions made at
positions n_ctx/2 to n_ctx-2 count. Method `llamacpp-stride`: windows of n_ctx + stride/2 tokens,
one every `stride`, whose last `stride` predictions count; no BOS is put in.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.app.identity import model_hash
from llamapy.app.sizes import ContextSettings
from llamapy.base.errors import NumericError, UsageError
from llamapy.base.log import log
from llamapy.ffi.softmax import negative_log
from llamapy.runtime.batch import Batch

Ints = npt.NDArray[np.int32]
ROWS_BYTES = 128 << 20  # of logits at a time
DEFAULT_CTX = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PerplexitySettings(ContextSettings):
    """`n_ctx` tokens a window, 0: as trained; at most `n_chunks` windows; `n_parallel` decoded
    together, None: as many as `n_batch` holds. Only n_ctx, stride and the types of the cache
    change a result."""

    n_ctx: int = DEFAULT_CTX
    n_chunks: int | None = None
    stride: int = 0
    n_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """Window i is `tokens[i * step : i * step + size]`, its token 0 replaced by `bos` if there is
    one; predictions made at positions `first` to `size - 2` are scored."""

    tokens: Ints
    size: int
    step: int
    first: int
    n: int
    bos: int | None

    @property
    def n_scored(self) -> int:
        return self.size - 1 - self.first

    def of(self, i: int) -> Ints:
        out = self.tokens[i * self.step : i * self.step + self.size].copy()
        if self.bos is not None:
            out[0] = self.bos
        return out


@dataclass(frozen=True, slots=True)
class Chunk:
    """One window: its number, tokens scored, sums of their nll and its square (float64)."""

    index: int
    n: int
    nll: float
    nll2: float


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Tokens of this group of windows that went through the model so far, and their number."""

    done: int
    total: int


@dataclass(slots=True)
class Estimate:
    """What the windows say together, added up in their order."""

    n: int = 0
    nll: float = 0.0
    nll2: float = 0.0

    def add(self, chunk: Chunk) -> None:
        self.n += chunk.n
        self.nll += chunk.nll
        self.nll2 += chunk.nll2

    @property
    def ppl(self) -> float:
        mean = self.nll / self.n
        return math.exp(mean) if mean < 709 else math.inf

    @property
    def error(self) -> float | None:
        """One standard error of `ppl`; None where the variance is not positive."""
        mean = self.nll / self.n
        variance = self.nll2 / self.n - mean * mean
        if self.n < 2 or variance <= 0:
            return None
        return self.ppl * math.sqrt(variance / (self.n - 1))


def text_ids(tokenizer: Any, text: bytes) -> Ints:
    """The text as one row of ids, control tokens written in it read as such; a newline at its end
    is left out, as llama-perplexity does."""
    if getattr(tokenizer, "add_eos", False):
        raise UsageError("this vocabulary ends every text with EOS: no text to cut into windows")
    raw = text.removesuffix(b"\n")
    return np.array(tokenizer.encode(raw, add_special=True, parse_special=True), np.int32)


def windows(model: Any, ids: Ints, s: PerplexitySettings) -> Windows:
    """How the text is cut. UsageError when it is too short for one window."""
    size = (s.n_ctx or model.hparams.n_ctx_train) + s.stride // 2
    if size < 4:
        raise UsageError(f"-c {size}: a window takes at least 4 tokens")
    if s.stride >= size:
        raise UsageError(f"--stride {s.stride}: must be less than the window of {size}")
    need = size + (s.stride > 0)
    if len(ids) < need:
        shorter = f"; try -c {len(ids)}" if len(ids) >= 4 and not s.stride else ""
        raise UsageError(f"the text has {len(ids)} tokens, and a window takes {need}{shorter}")
    if size > model.hparams.n_ctx_train:
        trained = model.hparams.n_ctx_train
        log.warn("W05", f"windows of {size}; the model was trained for {trained}")
    if s.stride:
        n, step, first = -(-(len(ids) - size) // s.stride), s.stride, size - s.stride - 1
    else:
        n, step, first = len(ids) // size, size, size // 2
    bos = model.tokenizer.bos if model.tokenizer.add_bos and not s.stride else None
    n = n if s.n_chunks is None else min(n, s.n_chunks)
    return Windows(ids, size, step, first, n, bos)


def identity(model: Any, w: Windows, s: PerplexitySettings) -> dict[str, Any]:
    """All that a window's numbers depend on. Threads, batches and instruction sets are not in it,
    nor how many windows there are."""
    return {
        "method": "llamacpp-stride" if s.stride else "llamacpp",
        "model": model_hash(model.gguf),
        "tokens": hashlib.sha256(w.tokens.astype("<i4").tobytes()).hexdigest(),
        "n_tokens": len(w.tokens),
        "n_ctx": w.size,
        "stride": w.step,
        "first_scored": w.first + 1,
        "bos": w.bos,
        "type_k": s.type_k,
        "type_v": s.type_v,
    }


class Perplexity:
    """Windows through a model. `seconds`: decode (the model), score (logits to sums)."""

    def __init__(self, model: Any, w: Windows, s: PerplexitySettings) -> None:
        self.model, self.w, self.s = model, w, s
        self.seconds = {"decode": 0.0, "score": 0.0}
        self.isa, self.n_threads = "", 1
        fit = max(1, s.n_batch // w.size)
        self.n_parallel = min(s.n_parallel or fit, max(1, w.n))
        self._n_rows = max(1, ROWS_BYTES // (4 * model.hparams.n_vocab))

    def run(self, start: int = 0) -> Iterator[Evaluated | Chunk]:
        """Windows from number `start` on. NumericError names the window and position of logits that
        are no numbers; those before it have been given by then."""
        s = self.s
        if start >= self.w.n:
            return
        n = self.n_parallel
        with self.model.context(**s.of_context(n_ctx=n * self.w.size, n_seq_max=n)) as ctx:
            self.isa, self.n_threads = ctx.isa, ctx.n_threads
            with (
                ThreadPoolExecutor(ctx.n_threads) as pool,
                getattr(ctx, "interruptible", nullcontext)(),
            ):
                for at in range(start, self.w.n, self.n_parallel):
                    group = range(at, min(at + self.n_parallel, self.w.n))
                    ctx.clear()
                    yield from self._group(ctx, group, pool)

    def _group(
        self, ctx: Any, group: range, pool: ThreadPoolExecutor
    ) -> Iterator[Evaluated | Chunk]:
        """Some windows together: first what is not scored, which needs no logits, then the rest, as
        many rows at a time as memory allows. A window's last token is not evaluated at all."""
        size, first = self.w.size, self.w.first
        rows = [self.w.of(i) for i in group]
        total = len(rows) * (size - 1)
        self._decode(ctx, rows, [(k, p) for k in range(len(rows)) for p in range(first)], False)
        yield Evaluated(len(rows) * first, total)
        scored = [(k, p) for k in range(len(rows)) for p in range(first, size - 1)]
        nll: list[float] = []
        for at in range(0, len(scored), self._n_rows):
            part = scored[at : at + self._n_rows]
            logits = self._decode(ctx, rows, part, True)
            targets = np.array([rows[k][p + 1] for k, p in part], np.int32)
            begun = time.perf_counter()
            nll += negative_log(logits, targets, pool, ctx.n_threads)
            self.seconds["score"] += time.perf_counter() - begun
            del logits  # before there are more
            yield Evaluated(len(rows) * first + len(nll), total)
        for k, index in enumerate(group):
            yield self._chunk(index, nll[k * self.w.n_scored : (k + 1) * self.w.n_scored])

    def _chunk(self, index: int, nll: list[float]) -> Chunk:
        for i, value in enumerate(nll):
            if not math.isfinite(value):
                raise NumericError(
                    f"NaN or Inf in the logits of chunk {index + 1}, position {self.w.first + i}"
                )
        # math.fsum: the exact sum, rounded once
        return Chunk(index, len(nll), math.fsum(nll), math.fsum(x * x for x in nll))

    def _decode(self, ctx: Any, rows: list[Ints], at: list[tuple[int, int]], want: bool) -> Any:
        if not at:
            return None
        begun = time.perf_counter()
        batch = Batch(
            np.array([rows[k][p] for k, p in at], np.int32),
            np.array([p for _, p in at], np.int32),
            tuple((k,) for k, _ in at),
            np.full(len(at), want, np.bool_),
        )
        out = ctx.decode_batch(batch)
        self.seconds["decode"] += time.perf_counter() - begun
        return out
