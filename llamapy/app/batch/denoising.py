"""Diffusion models answer one prompt after the other: each step reads all of its tokens at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from llamapy.app.batch.decoder import Answer, Place, Request
from llamapy.app.diffusion import BY_CHANCE, Denoiser, Step, mask_of
from llamapy.base.errors import NumericError


class DenoisingDecoder:
    """See Decoder. `ctx` has room for the longest of the sequences, in one ubatch; the step of a
    decoder is one step of the answer under way. UsageError where the model names no mask."""

    n_shared = 0

    def __init__(self, ctx: Any, model: Any) -> None:
        self.ctx, self.model = ctx, model
        self.n_prompt = self.n_generated = 0
        self._under_way: tuple[Place, Denoiser, Iterator[Step]] | None = None
        mask_of(model)

    @property
    def n_free(self) -> int:
        return 1 - self.n_busy

    @property
    def n_busy(self) -> int:
        return int(self._under_way is not None)

    def start(self, request: Request) -> None:
        place, s = Place(0, request, self.model.tokenizer), request.settings
        ids, n = request.plan.ids, request.plan.n_max
        denoiser = Denoiser.of(self.ctx, self.model, ids, n, s.diffusion, place.sampler)
        self._under_way = place, denoiser, denoiser.run()
        self.n_prompt += len(ids)

    def step(self) -> list[Answer]:
        if self._under_way is None:
            return []
        place, denoiser, steps = self._under_way
        try:
            if next(steps, None) is not None:
                return []
        except NumericError as e:
            answer = Answer(place.request.number, error=e)
        else:
            answer = _answer(place, denoiser.answer)
        self._under_way = None
        self.n_generated += len(answer.ids)
        return [answer]


def _answer(place: Place, ids: list[int]) -> Answer:
    """What the tokens that came at once say. They may depend on the seed without a temperature."""
    said = (answer for id in ids if (answer := place.say(id)))
    answer = next(said, None) or place.answer(place.request.plan.limit)
    by_chance = place.request.settings.diffusion.algorithm in BY_CHANCE
    return replace(answer, seed=place.sampler.seed) if by_chance else answer
