"""Texts as vectors: tokens of each, as many texts at once as fit, one vector after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from llamapy.app.generate import prompt_ids
from llamapy.app.sizes import ContextSettings
from llamapy.base.errors import ContextError, MemoryBudgetError, NumericError, UsageError
from llamapy.base.log import log
from llamapy.runtime.embed import embed, normalised, pooling_of

NORMS = ("none", "l2", "l1", "max")
AT_ONCE = 64  # texts


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSettings(ContextSettings):
    """`pooling` None: the file's, see runtime.embed.pooling_of. `normalize`: one of NORMS, never of
    the scores that 'rank' gives."""

    pooling: str | None = None
    normalize: str = "l2"
    special: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """One text: float32 [n], or [n_tokens, n] with pooling 'none'. `normalize`: as it was done."""

    index: int
    n_texts: int
    n_tokens: int
    pooling: str
    normalize: str
    values: np.ndarray[Any, np.dtype[np.float32]]


def embed_texts(
    model: Any, texts: list[bytes], settings: EmbedSettings = EmbedSettings()
) -> Iterator[Embedded]:
    """UsageError for no texts or one without tokens, ContextError for one that is too long,
    NumericError for numbers that are none."""
    s = settings
    if not texts:
        raise UsageError("no text to embed")
    if s.normalize not in NORMS:
        raise UsageError(f"--normalize must be one of {', '.join(NORMS)}, not '{s.normalize}'")
    ranks = (s.pooling or model.hparams.pooled.by) == "rank"
    ids = [_ids(model.tokenizer, text, s.special, ranks) for text in texts]
    with _context(model, [len(i) for i in ids], s) as ctx:
        pooling = pooling_of(ctx, s.pooling)
        how = "none" if pooling == "rank" else s.normalize
        if pooling in ("cls", "last", "rank"):
            _check_ends(model.tokenizer, ids)
        with getattr(ctx, "interruptible", nullcontext)():
            for i, values in enumerate(embed(ctx, ids, pooling)):
                if not np.isfinite(values).all():
                    raise NumericError(f"NaN or Inf in the embedding of text {i + 1}")
                yield Embedded(i, len(ids), len(ids[i]), pooling, how, normalised(values, how))


def _ids(tokenizer: Any, text: bytes, special: bool, ranks: bool) -> list[int]:
    """Tokens of a text, or of a question and a document, with a separator in the tab's place."""
    if not ranks or b"\t" not in text:
        return prompt_ids(tokenizer, text, parse_special=special)
    if tokenizer.sep is None:
        raise UsageError("a question and a document, and the vocabulary has no SEP to part them")
    first, second = (
        tokenizer.encode(part, add_special=False, parse_special=special)
        for part in text.split(b"\t", 1)
    )
    ids: list[int] = tokenizer.with_ends([*first, tokenizer.sep, *second])
    return ids


def _context(model: Any, lengths: list[int], s: EmbedSettings) -> Any:
    """Room for the longest text in one go, and for others with it."""
    longest, train = max(lengths), model.hparams.n_ctx_train
    limit = s.n_ctx or train
    if longest > limit:
        raise ContextError(
            f"text {lengths.index(longest) + 1} has {longest} tokens, and the context {limit} "
            f"(the model's was {train} in training); shorten it"
            + (f", or give -c {longest}" if limit < train else "")
        )
    n_ubatch = max(s.n_ubatch, longest)
    n_batch = max(s.n_batch, n_ubatch)
    n = min(len(lengths), AT_ONCE)
    while True:
        most = sum(sorted(lengths, reverse=True)[:n])
        sizes = s.of_context(
            n_ctx=max(min(n_batch, most), longest),
            n_batch=n_batch,
            n_ubatch=n_ubatch,
            n_seq_max=n,
        )
        try:
            return model.context(**sizes)
        except MemoryBudgetError:
            if n == 1:
                raise
            n //= 2  # the vectors are the same


def _check_ends(tokenizer: Any, ids: list[list[int]]) -> None:
    """These poolings read a token at an end of the text, which models learn with their marks."""
    ends = {tokenizer.eos, tokenizer.sep} | set(tokenizer.eog)
    bare = sum(text[-1] not in ends for text in ids)
    if bare:
        log.note(f"{bare} of {len(ids)} texts end in no EOS or SEP: the file does not ask for one")
