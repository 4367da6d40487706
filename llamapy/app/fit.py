"""Prompt, output and context: do they fit, how large is the context, what is left out.

Pure arithmetic on token counts, before any memory is asked for. A token needs a place in the
context to be generated: prompt + output <= context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llamapy.base.errors import ContextError, UsageError

OPEN_ENDED_CTX = 4096  # context of a run without a limit, if the model was trained for as much
PAD = 256
POLICIES = ("error", "truncate-left", "truncate-middle")


@dataclass(frozen=True, slots=True)
class Fit:
    """`ids` is the prompt as evaluated; `dropped` the range of the given prompt left out of it.

    At most `n_max` tokens are generated; reaching it is reported as `limit`: 'length', 'context'.
    """

    ids: list[int]
    n_ctx: int
    n_max: int
    limit: str
    dropped: tuple[int, int] | None = None


def fit(
    ids: Sequence[int],
    *,
    n_predict: int,
    n_ctx: int | None,
    n_ctx_train: int,
    on_overflow: str = "error",
    n_head: int = 0,
) -> Fit:
    """Choose the context for a prompt and a limit on the output (negative: open-ended).

    `n_ctx` None: what the job needs; 0: what the model was trained for. The first `n_head` tokens
    (BOS) survive a truncation. ContextError with the numbers and the smallest context that works.
    """
    if on_overflow not in POLICIES:
        raise UsageError(f"--on-overflow {on_overflow}: must be one of {', '.join(POLICIES)}")
    chosen = _context(len(ids), n_predict, n_ctx, n_ctx_train)
    need = len(ids) + _at_least(n_predict)
    if need <= chosen:
        kept, dropped = list(ids), None
    elif on_overflow == "error":
        raise ContextError(_overflow(len(ids), n_predict, chosen, n_ctx_train))
    else:
        kept, dropped = _truncate(ids, n_predict, chosen, n_ctx_train, on_overflow, n_head)
    room = chosen - len(kept)
    if 0 <= n_predict <= room:
        return Fit(kept, chosen, n_predict, "length", dropped)
    return Fit(kept, chosen, room, "context", dropped)


def _at_least(n_predict: int) -> int:
    """Output that must fit: all of it, or one token of an open-ended run."""
    return n_predict if n_predict >= 0 else 1


def _context(n_prompt: int, n_predict: int, n_ctx: int | None, n_ctx_train: int) -> int:
    if n_ctx is not None:
        return n_ctx if n_ctx > 0 else n_ctx_train
    if n_predict >= 0:
        need = n_prompt + n_predict
    else:
        usual = min(n_ctx_train, OPEN_ENDED_CTX)
        need = usual if n_prompt < usual else n_prompt + OPEN_ENDED_CTX
    return min(max(-(-need // PAD), 1) * PAD, n_ctx_train)


def _overflow(n_prompt: int, n_predict: int, n_ctx: int, n_ctx_train: int) -> str:
    need = n_prompt + _at_least(n_predict)
    wanted = f"{_at_least(n_predict)} to generate"
    beyond = ", more than it was trained for" if need > n_ctx_train else ""
    return (
        f"a prompt of {n_prompt} tokens and {wanted} do not fit a context of {n_ctx}: the smallest"
        f" that works is --ctx-size {need} (the model was trained for {n_ctx_train}{beyond}),"
        " or see --on-overflow"
    )


def _truncate(
    ids: Sequence[int], n_predict: int, n_ctx: int, n_ctx_train: int, policy: str, n_head: int
) -> tuple[list[int], tuple[int, int]]:
    """Leave out a range so that the output fits; an open-ended run keeps a quarter for it."""
    room = n_ctx - (n_predict if n_predict >= 0 else max(n_ctx // 4, 1))
    n_head = min(n_head, len(ids))
    if room <= n_head:
        raise ContextError(_overflow(len(ids), n_predict, n_ctx, n_ctx_train))
    n_drop = len(ids) - room
    start = n_head if policy == "truncate-left" else n_head + (room - n_head) // 2
    return [*ids[:start], *ids[start + n_drop :]], (start, start + n_drop)
