"""The chain: from the logits of one position to one id, the same for the same seed."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llamapy.base.errors import NumericError, UsageError
from llamapy.sample import filters
from llamapy.sample.breakers import find_breakers
from llamapy.sample.candidates import Candidates
from llamapy.sample.mirostat import Mirostat
from llamapy.sample.params import SamplerParams
from llamapy.sample.penalties import Breakers, add_bias, dry, repetition
from llamapy.sample.rng import Rng, actual_seed
from llamapy.sample.usual import find_usual

DRAW, CHANCE = 0, 1  # streams of the seed: the token drawn, and whether xtc acts
Step = Callable[[Candidates], Candidates]


class Vocabulary(Protocol):
    """What a sampler asks of a tokenizer."""

    @property
    def n_vocab(self) -> int: ...
    @property
    def eog(self) -> frozenset[int]: ...
    @property
    def suppress(self) -> tuple[int, ...]: ...
    def piece(self, id: int, special: bool = False) -> bytes: ...
    def encode(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = False
    ) -> list[int]: ...


class Sampler:
    """One stream of text. `accept` every token in order, those of the prompt too; then `sample`.

    Logit bias comes first, then the steps of `params.samplers`, then one draw. `temp <= 0` is
    greedy whatever the steps: the highest logit, of equal ones the lowest id. `seed` is the one in
    use.
    """

    def __init__(self, params: SamplerParams, vocab: Vocabulary, seed: int | None = None) -> None:
        self.params, self.vocab = params, vocab
        self.seed = actual_seed(params.seed if seed is None else seed)
        self._bias = self._biases()
        self._lowers = all(value <= 0 for value in self._bias.values())
        self._breakers: Breakers = (
            find_breakers(vocab, params.dry_sequence_breakers) if self._active("dry") else {}
        )
        looks_back = max(
            params.repeat_last_n if self._active("penalties") else 0,
            params.dry_penalty_last_n if self._active("dry") else 0,
        )
        self._window: deque[int] = deque(maxlen=looks_back)
        self._steps = self._chain()
        self._usual = find_usual(params, self._names(), self._bias, vocab.n_vocab)
        self.reset()

    def reset(self) -> None:
        """Back to the beginning: the same tokens again give the same tokens again."""
        p = self.params
        self._draw, self._chance = Rng(self.seed, DRAW), Rng(self.seed, CHANCE)
        self._window.clear()
        self._mirostat = (
            Mirostat(p.mirostat, p.mirostat_ent, p.mirostat_lr, self.vocab.n_vocab)
            if p.mirostat and not p.greedy
            else None
        )

    def accept(self, id: int) -> None:
        """Tells of a token that now stands in the text."""
        self._window.append(id)

    @property
    def never(self) -> tuple[int, ...] | None:
        """The tokens that are never taken, where the next one is the one with the highest
        logit of all others; None where it is not as simple as that."""
        if not self.params.greedy or self._steps:
            return None
        bias = self._bias
        simple = all(value == -np.inf for value in bias.values()) and len(bias) < self.vocab.n_vocab
        return tuple(sorted(bias)) if simple else None

    def sample(self, logits: NDArray[np.float32]) -> int:
        """The next id from float32 `[n_vocab]`, which stays as it is. Does not `accept` it.

        Raises NumericError when the logits hold NaN or +inf, or leave no token possible.
        """
        if self.params.greedy and not self._steps and self._lowers:
            id = _highest(logits)
            if id >= 0 and id not in self._bias:
                return id
        u = 0.0 if self.params.greedy else self._draw.next()
        if self._usual:
            id = self._usual.sample(logits, u)
            if id >= 0:
                return id  # else the logits are broken, and the steps say how
        c = self._candidates(logits)
        if self.params.greedy:
            return c.id(int(c.logits.argmax()))
        return self._mirostat.sample(c, u) if self._mirostat else filters.draw(c, u)

    def weighed(self, logits: NDArray[np.float32]) -> tuple[int, float, NDArray[np.float64]]:
        """An id as `sample` gives it (without mirostat), its probability among those that could
        be drawn, and the probabilities of all of them."""
        u = self._draw.next()
        usual = None if self.params.greedy else self._usual
        if usual and usual.sample(logits, u) >= 0:
            at, c = usual.at, Candidates(usual.logits[: usual.n], usual.ids[: usual.n], True)
        else:
            c = self._candidates(logits)
            at = int(c.logits.argmax()) if self.params.greedy else filters.place(c, u)
        probs = c.probs()
        return c.id(at), float(probs[at]), probs

    def chance(self) -> float:
        """A number in [0, 1) of the seed's other stream."""
        return self._chance.next()

    def _candidates(self, logits: NDArray[np.float32]) -> Candidates:
        c = Candidates(logits)
        _check(logits)
        if self._bias:
            c = add_bias(c, self._bias)
            if c.logits.max() == -np.inf:
                raise NumericError("no token is possible: bias and bans forbid every one")
        for step in self._steps:
            c = step(c)
        return c

    def describe(self) -> dict[str, Any]:
        """The seed, the steps that do something, and every parameter, all fit for JSON."""
        p = self.params
        values = {name: getattr(p, name) for name in SamplerParams.__dataclass_fields__}
        bias = [[id, "-inf" if value == -np.inf else value] for id, value in p.logit_bias]
        ours = {"seed": self.seed, "greedy": p.greedy, "active": self.active, "logit_bias": bias}
        return values | ours

    @property
    def active(self) -> list[str]:
        """The steps that do something, in order."""
        bias = ["logit_bias"] if self._bias else []
        return bias + list(self._names()) + [self._last()]

    # ---- building -----------------------------------------------------------------------------

    def _last(self) -> str:
        if self.params.greedy:
            return "greedy"
        return f"mirostat_{self.params.mirostat}" if self.params.mirostat else "dist"

    def _biases(self) -> dict[int, float]:
        n = self.vocab.n_vocab
        bias = dict.fromkeys(self.vocab.suppress, -np.inf)
        for id, value in self.params.logit_bias:
            if id >= n:
                raise UsageError(f"--logit-bias {id}: the vocabulary has {n} tokens")
            bias[id] = bias.get(id, 0.0) + value
        if self.params.ignore_eos:
            bias |= dict.fromkeys(self.vocab.eog, -np.inf)
        return bias

    def _names(self) -> list[str]:
        """Steps in use. Mirostat takes the place of all but the temperature; under greedy only
        steps matter that can change which logit is the highest."""
        p = self.params
        if p.mirostat and not p.greedy:
            return ["temperature"]
        if p.greedy:
            lookers = [s for s in p.samplers if s in ("penalties", "dry") and self._active(s)]
            changes = any(self._active(s) for s in p.samplers if s in ("typ_p", "xtc"))
            if not changes:
                return lookers
        return [s for s in p.samplers if self._active(s)]

    def _active(self, step: str) -> bool:
        p = self.params
        if step not in p.samplers:
            return False
        penalties = p.repeat_penalty != 1 or p.presence_penalty != 0 or p.frequency_penalty != 0
        return {
            "penalties": p.repeat_last_n > 0 and penalties,
            "dry": p.dry_multiplier > 0 and p.dry_base >= 1 and p.dry_penalty_last_n > 0,
            "top_n_sigma": p.top_n_sigma > 0,
            "top_k": p.top_k > 0,
            "typ_p": p.typical < 1,
            "top_p": p.top_p < 1,
            "min_p": p.min_p > 0,
            "xtc": p.xtc_probability > 0 and p.xtc_threshold <= 0.5,
            "temperature": True,
        }[step]

    def _chain(self) -> list[Step]:
        return [getattr(self, f"_{name}") for name in self._names()]

    def _last_n(self, n: int) -> Sequence[int]:
        return list(islice(self._window, max(len(self._window) - n, 0), None))

    # ---- steps, named as in the chain ---------------------------------------------------------

    def _penalties(self, c: Candidates) -> Candidates:
        window = self._last_n(self.params.repeat_last_n)
        return repetition(c, window, self.params) if window else c

    def _dry(self, c: Candidates) -> Candidates:
        window = self._last_n(self.params.dry_penalty_last_n)
        return dry(c, window, self.params, self._breakers)

    def _top_n_sigma(self, c: Candidates) -> Candidates:
        return filters.top_n_sigma(c, self.params.top_n_sigma, self.params.min_keep)

    def _top_k(self, c: Candidates) -> Candidates:
        return filters.top_k(c, self.params.top_k, self.params.min_keep)

    def _typ_p(self, c: Candidates) -> Candidates:
        return filters.typical(c, self.params.typical, self.params.min_keep)

    def _top_p(self, c: Candidates) -> Candidates:
        return filters.top_p(c, self.params.top_p, self.params.min_keep)

    def _min_p(self, c: Candidates) -> Candidates:
        return filters.min_p(c, self.params.min_p, self.params.min_keep)

    def _xtc(self, c: Candidates) -> Candidates:
        p = self.params
        chance = self._chance.next()
        return filters.xtc(c, p.xtc_probability, p.xtc_threshold, chance, p.min_keep)

    def _temperature(self, c: Candidates) -> Candidates:
        p = self.params
        spread = 0.0 if p.greedy else p.dynatemp_range
        return filters.temperature(c, p.temp, spread, p.dynatemp_exp)


def _highest(logits: NDArray[np.float32]) -> int:
    """See Sampler.sample."""
    id = int(logits.argmax())  # where there is a NaN, that one
    return id if math.isfinite(logits[id]) else -1


def _check(logits: NDArray[np.float32]) -> None:
    top = float(logits.max())
    if not math.isfinite(top):
        kind = "NaN" if math.isnan(top) else str(top)
        where = int(np.flatnonzero(np.isnan(logits) if kind == "NaN" else logits == top)[0])
        raise NumericError(f"the logits are broken: {kind} at token {where} of {len(logits)}")
