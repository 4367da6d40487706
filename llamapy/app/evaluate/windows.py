"""How a text is cut into windows of tokens, and which predictions count.

Method `llamacpp`: windows of n_ctx side by side, what follows the last whole one left out; where
the vocabulary adds BOS, it stands in place of each window's first token; the predictions made at
positions n_ctx/2 to n_ctx-2 count. Method `llamacpp-stride`: windows of n_ctx + stride/2 tokens,
rounded up to 256 as llama.cpp's contexts are, one every `stride`, whose last `stride` predictions
count; no BOS is put in. Method `hf`: windows of
n_ctx, one every `stride`, the last of them ending with the text; every token but the first of all
is predicted once, by the first window that holds it (Hugging Face, "Perplexity of fixed-length
models").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from llamapy.app.identity import model_hash
from llamapy.app.sizes import ContextSettings
from llamapy.base.errors import UsageError
from llamapy.base.log import log

Ints = npt.NDArray[np.int32]
DEFAULT_CTX = 512
_PAD = 256  # llama.cpp's contexts are rounded up to it
METHODS = ("llamacpp", "hf")


@dataclass(frozen=True, slots=True, kw_only=True)
class PerplexitySettings(ContextSettings):
    """`n_ctx` tokens a window, 0: as trained; at most `n_chunks` windows; `n_parallel` decoded
    together, None: as many as `n_batch` holds. `stride` 0: windows side by side, or half a window
    apart with method hf. Only n_ctx, method, stride and the types of the cache change a result."""

    n_ctx: int = DEFAULT_CTX
    method: str = "llamacpp"
    n_chunks: int | None = None
    stride: int = 0
    n_parallel: int | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """A window: tokens `begin` to `end`; predictions made at its positions `first` to `end - begin
    - 2` count."""

    begin: int
    end: int
    first: int

    @property
    def n_evaluated(self) -> int:
        """Its last token is not: what would follow is not asked."""
        return self.end - self.begin - 1

    @property
    def n_scored(self) -> int:
        return self.n_evaluated - self.first


@dataclass(frozen=True, slots=True)
class Windows:
    """`n` windows of up to `size` tokens, one every `step`. `bos` stands in place of each one's
    first token, unless it is None."""

    tokens: Ints
    method: str
    size: int
    step: int
    n: int
    bos: int | None

    def span(self, i: int) -> Span:
        begin = i * self.step
        end = min(begin + self.size, len(self.tokens))
        if self.method == "llamacpp":
            return Span(begin, end, self.size // 2)
        if self.method == "llamacpp-stride":
            return Span(begin, end, self.size - self.step - 1)
        before = begin - self.step + self.size if i else 0  # where the window before this one ended
        return Span(begin, end, max(before - begin, 1) - 1)

    def of(self, i: int) -> Ints:
        span = self.span(i)
        out = self.tokens[span.begin : span.end].copy()
        if self.bos is not None:
            out[0] = self.bos
        return out

    def describe(self) -> dict[str, Any]:
        """What a file must say to be of these windows. Not in it: how many there are."""
        return {
            "method": self.method,
            "tokens": token_hash(self.tokens),
            "n_tokens": len(self.tokens),
            "n_ctx": self.size,
            "stride": self.step,
            "first_scored": self.span(0).first + 1,
            "bos": self.bos,
        }


def token_hash(tokens: Ints) -> str:
    """sha256 (hex) of ids as little-endian int32."""
    return hashlib.sha256(tokens.astype("<i4").tobytes()).hexdigest()


def text_ids(tokenizer: Any, text: bytes) -> Ints:
    """The text as one row of ids, control tokens written in it read as text; a newline at its end
    is left out, as llama-perplexity does."""
    if getattr(tokenizer, "add_eos", False):
        raise UsageError("this vocabulary ends every text with EOS: no text to cut into windows")
    raw = text.removesuffix(b"\n")
    return np.array(tokenizer.encode(raw, add_special=True, parse_special=False), np.int32)


def windows(model: Any, ids: Ints, s: PerplexitySettings) -> Windows:
    """How the text is cut. UsageError when it is too short for one window."""
    trained = model.hparams.n_ctx_train
    size = s.n_ctx or trained
    w = _hf(ids, size, s) if s.method == "hf" else _llamacpp(ids, size, s, model.tokenizer)
    if w.size > trained:
        log.warn("W05", f"windows of {w.size}; the model was trained for {trained}")
    return w


def _llamacpp(ids: Ints, n_ctx: int, s: PerplexitySettings, tokenizer: Any) -> Windows:
    size = -(-(n_ctx + s.stride // 2) // _PAD) * _PAD if s.stride else n_ctx
    if n_ctx < 4:
        raise UsageError(f"-c {n_ctx}: a window takes at least 4 tokens")
    if s.stride >= size:
        raise UsageError(f"--stride {s.stride}: must be less than the window of {size}")
    need = size + (s.stride > 0)
    if len(ids) < need:
        shorter = f"; try -c {len(ids)}" if len(ids) >= 4 and not s.stride else ""
        raise UsageError(f"the text has {len(ids)} tokens, and a window takes {need}{shorter}")
    n = -(-(len(ids) - size) // s.stride) if s.stride else len(ids) // size
    bos = tokenizer.bos if tokenizer.add_bos and not s.stride else None
    method = "llamacpp-stride" if s.stride else "llamacpp"
    return Windows(ids, method, size, s.stride or size, _at_most(n, s), bos)


def _hf(ids: Ints, size: int, s: PerplexitySettings) -> Windows:
    if size < 2:
        raise UsageError(f"-c {size}: a window takes at least 2 tokens")
    step = s.stride or max(size // 2, 1)
    if step > size:
        raise UsageError(f"--stride {step}: must not be more than the window of {size}")
    if len(ids) < 2:
        raise UsageError(f"the text has {len(ids)} tokens: nothing to predict")
    n = 1 + -(-max(len(ids) - size, 0) // step)
    return Windows(ids, "hf", size, step, _at_most(n, s), None)


def _at_most(n: int, s: PerplexitySettings) -> int:
    return n if s.n_chunks is None else min(n, s.n_chunks)


def identity(model: Any, w: Windows, s: PerplexitySettings) -> dict[str, Any]:
    """All that a window's numbers depend on. Threads, batches and instruction sets are not in it,
    nor how many windows there are."""
    about = {"model": model_hash(model.gguf), "type_k": s.type_k, "type_v": s.type_v}
    return {**w.describe(), **about}
