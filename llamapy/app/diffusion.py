"""Answers of diffusion models (LLaDA, arXiv 2502.09992; Dream): all of the answer is masks first, a
step predicts every one of them, and those that are surest become tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llamapy.base.errors import UsageError
from llamapy.runtime.batch import Batch

# What of the predictions becomes tokens, by llama-diffusion-cli's numbers: chance alone chooses
# places, or those with the least entropy, the widest lead over the second token, a number drawn for
# each, the most probable token.
ALGORITHMS = ("origin", "entropy", "margin", "random", "confidence")
BY_CHANCE = ("origin", "random")  # those in which the seed chooses places, whatever the temperature
OPEN_ENDED = 128  # tokens of an answer without a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Diffusion:
    """`steps` in all; `block`: tokens that are completed before the next ones, 0: all at once, and
    as many as a schedule from 1 to `eps` says in each step."""

    steps: int = 128
    algorithm: str = "confidence"
    block: int = 0
    eps: float = 1e-3

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise UsageError(
                f"--diffusion-algorithm {self.algorithm}: expected one of {', '.join(ALGORITHMS)}"
            )


@dataclass(frozen=True, slots=True)
class Step:
    """Steps taken so far."""

    done: int
    total: int


def is_diffusion(model: Any) -> bool:
    """Whether a model gives logits, and its tokens see all others."""
    arch = getattr(model, "arch", None)
    return arch is not None and arch.gives == "logits" and not arch.cache(model.hparams).causal


def most_tokens(model: Any, n_predict: int) -> int:
    """The most tokens that `n_predict` asks of a model, negative: open."""
    return OPEN_ENDED if n_predict < 0 and is_diffusion(model) else n_predict


def sizes_for(sizes: dict[str, Any], n: int) -> dict[str, Any]:
    """Those of a context, as every step of an answer wants them: it sees all `n` tokens."""
    return sizes | {name: max(sizes[name], n) for name in ("n_batch", "n_ubatch")}


def mask_of(model: Any) -> int:
    mask: int | None = model.tokenizer.role("mask")
    if mask is None:
        raise UsageError("this model answers by replacing masks, and its file names no mask token")
    return mask


class Denoiser:
    """`tokens`: the prompt and the answer so far. `draw` gives a token for logits, and the
    probabilities that it was drawn from; `chance` a number from 0 to 1."""

    def __init__(
        self,
        ctx: Any,
        prompt: Sequence[int],
        n: int,
        d: Diffusion,
        *,
        mask: int,
        shifted: bool,
        draw: Callable[[Any], tuple[int, float, Any]],
        chance: Callable[[], float],
    ) -> None:
        self.ctx, self.d, self.mask, self.shifted = ctx, d, mask, shifted
        self.n_prompt, self.draw, self.chance = len(prompt), draw, chance
        self.tokens = np.array([*prompt, *[mask] * n], np.int32)

    @classmethod
    def of(
        cls, ctx: Any, model: Any, prompt: Sequence[int], n: int, d: Diffusion, sampler: Any
    ) -> Denoiser:
        """With the mask and the shift that a model's file names, and a sampler's draws."""
        return cls(
            ctx,
            prompt,
            n,
            d,
            mask=mask_of(model),
            shifted=model.gguf.get_bool("diffusion.shift_logits", True),
            draw=sampler.weighed,
            chance=sampler.chance,
        )

    @property
    def answer(self) -> list[int]:
        """As far as it stands."""
        ids: list[int] = self.tokens[self.n_prompt :].tolist()
        return ids

    def run(self) -> Iterator[Step]:
        d, n = self.d, len(self.tokens) - self.n_prompt
        size = min(d.block, n) or n
        blocks = -(-n // size) if n else 0
        per_block = max(1, d.steps // max(1, blocks))
        for b in range(blocks):
            first = self.n_prompt + b * size
            end = min(first + size, len(self.tokens))
            masks = end - first
            for i in range(per_block):
                left = first + np.flatnonzero(self.tokens[first:end] == self.mask)
                if not len(left):
                    break
                self._step(left, self._count(i, per_block, masks, len(left)))
                yield Step(b * per_block + i + 1, blocks * per_block)

    def _count(self, i: int, n_steps: int, masks: int, left: int) -> int:
        """How many become tokens in step i; all that are left in the last one."""
        if i == n_steps - 1:
            return left
        if self.d.block:
            return masks // n_steps + (i < masks % n_steps)
        now, then = (1.0 - (i + j) / n_steps * (1.0 - self.d.eps) for j in (0, 1))
        return int(left * (1.0 - then / now) + 1e-9)

    def _step(self, left: Any, count: int) -> None:
        """Of the masks at `left` so many become tokens."""
        if not count:
            return
        logits = self._logits(left)
        share = count / len(left)
        if self.d.algorithm == "origin":
            for row, at in zip(logits, left, strict=True):
                if self.chance() < share:
                    self.tokens[at] = self.draw(row)[0]
            return
        drawn = [self.draw(row) for row in logits]
        sure = np.array([self._sureness(p, probs) for _, p, probs in drawn])
        for which in np.argsort(-sure, kind="stable")[:count]:
            self.tokens[left[which]] = drawn[which][0]

    def _logits(self, left: Any) -> Any:
        """[n_left, n_vocab]; of a shifted model those of the place before say what stands here."""
        places = np.maximum(left - 1, 0) if self.shifted else left
        n = len(self.tokens)
        want = np.zeros(n, np.bool_)
        want[places] = True
        self.ctx.clear()
        rows = self.ctx.decode_batch(
            Batch(self.tokens, np.arange(n, dtype=np.int32), ((0,),) * n, want)
        )
        return rows[np.searchsorted(np.flatnonzero(want), places)]

    def _sureness(self, p: float, probs: Any) -> float:
        match self.d.algorithm:
            case "entropy":
                some = probs[probs > 0]
                return float((some * np.log(some)).sum())
            case "margin":
                top = np.sort(probs)[-2:]
                return float(top[-1] - top[0]) if len(top) > 1 else 1.0
            case "random":
                return self.chance()
        return p
