"""Sparse attention, whose indexer chooses the tokens that are attended to. In contexts no longer
than what it would choose it chooses all, and is not computed; longer ones are refused."""

from __future__ import annotations

from dataclasses import replace

from llamapy.base.errors import ContextError
from llamapy.loader.bounded import Keys, count
from llamapy.loader.hparams import HParams
from llamapy.models.builder import Builder

INDEXER = tuple(
    f"indexer.{name}"
    for name in (
        *("k_norm.weight", "k_norm.bias", "q_norm.weight", "proj.weight", "attn_k.weight"),
        *("attn_q_b.weight", "q_proj.weight", "k_proj.weight"),
    )
)


def with_chosen(file: Keys, hp: HParams, of_one: int = 1) -> HParams:
    """`hp` with how many tokens are chosen, a key's number of blocks of `of_one` tokens each: no
    context should be longer."""
    n = of_one * count(file, f"{hp.arch}.attention.indexer.top_k", least=1)
    return replace(hp, n_attended=n, n_ctx_train=min(hp.n_ctx_train, n))


def refuse_choice(g: Builder) -> None:
    n = g.hp.n_attended
    if n and g.n_ctx > n:
        raise ContextError(
            f"this model attends to chosen tokens in contexts of more than {n} tokens, which is "
            f"not supported yet: use -c {n}"
        )
