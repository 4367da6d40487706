"""Several sequences decoded together, each as if it were alone.

`Decoder` is all a job knows of it: something that takes requests while it has room and hands back
answers as they come. `LocalDecoder` is one context with as many sequences as places: a step is one
ubatch with the next token of every sequence that generates, and as much of the waiting prompts as
there is room for. A sequence that has ended is followed by the next within the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from llamapy.app.batch.stems import Stem, Stems
from llamapy.app.fit import Fit
from llamapy.app.generate import ABORTED, Settings
from llamapy.base.errors import LlamapyError, NumericError
from llamapy.kv.api import ints
from llamapy.models.builder import HIGHEST
from llamapy.runtime.batch import Batch
from llamapy.sample.chain import Sampler
from llamapy.tokenize.stream import Stream


@dataclass(frozen=True, slots=True)
class Request:
    """`number` comes back with the answer. `stems`: beginnings of the prompt that others have.
    `begin`: where an encoder reads the prompt, what the answer begins with."""

    number: int
    plan: Fit
    settings: Settings
    stems: tuple[Stem, ...] = ()
    begin: tuple[int, ...] = ()

    @property
    def n_cells(self) -> int:
        """Places of the context it may need."""
        return len(self.plan.ids) + self.plan.n_max


@dataclass(frozen=True, slots=True)
class Answer:
    """As generate.Finished, or the error that ended it. `seed` is None where nothing was drawn."""

    number: int
    reason: str = ""
    stop: bytes | None = None
    text: str = ""
    raw: bytes = b""
    replaced: bool = False
    ids: list[int] = field(default_factory=list)
    seed: int | None = None
    error: LlamapyError | None = None


class Decoder(Protocol):
    """`n_free`: how many requests `start` takes now. `step` does some work and returns what is
    finished; it counts tokens of prompts in `n_prompt`, those of them that were evaluated for
    another prompt in `n_shared`, and tokens generated in `n_generated`."""

    n_prompt: int
    n_shared: int
    n_generated: int

    @property
    def n_free(self) -> int: ...

    @property
    def n_busy(self) -> int: ...

    def start(self, request: Request) -> None: ...

    def step(self) -> list[Answer]: ...


class Place:
    """A sequence of the context and what is done in it. `todo`: tokens not evaluated yet."""

    def __init__(self, seq: int, request: Request, tokenizer: Any) -> None:
        s = request.settings
        self.seq, self.request, self.tokenizer = seq, request, tokenizer
        self.of = (seq,)
        self.sampler = Sampler(s.sampling, tokenizer)
        self.todo: Sequence[int] = request.begin or request.plan.ids
        for id in self.todo:
            self.sampler.accept(id)
        self.stream = Stream(s.stop, include_stop=s.include_stop)
        self.stems = request.stems  # those it has not come to yet
        self.n_past = 0
        self.ids: list[int] = []
        self.texts: list[str] = []
        # Looked up here, and not with every token: between two steps little is in a cache.
        self.eog = frozenset() if s.sampling.ignore_eos else tokenizer.eog
        self.n_max, self.stops = request.plan.n_max, bool(s.stop)

    def advance(self, n: int) -> None:
        self.todo = self.todo[n:]
        self.n_past += n

    def take(self, found: Any) -> Answer | None:
        """The next token, from logits or chosen by the graph; the answer once it is complete."""
        id = found if isinstance(found, int) else self.sampler.sample(found)
        if id < 0:
            raise NumericError("the logits are broken: NaN, +inf or nothing but -inf")
        self.sampler.accept(id)
        return self.say(id)

    def say(self, id: int) -> Answer | None:
        """What comes of a token that was chosen."""
        if id in self.eog:
            return self.answer("eos")
        self.ids.append(id)
        if self.stops:
            self.texts.append(self.stream.push(self._piece(id)))
            if self.stream.stopped is not None:
                return self.answer("stop")
        if len(self.ids) >= self.n_max:
            return self.answer(self.request.plan.limit)
        self.todo = [id]
        return None

    def _piece(self, id: int) -> bytes:
        piece: bytes = self.tokenizer.piece(id, special=self.request.settings.print_special)
        return piece

    def answer(self, reason: str) -> Answer:
        if not self.request.settings.stop:  # then the text is not looked at before its end
            self.texts.append(self.stream.push(b"".join(map(self._piece, self.ids))))
        rest = self.stream.finish()
        return Answer(
            self.request.number,
            reason,
            self.stream.stopped,
            "".join([*self.texts, rest]),
            self.stream.raw,
            self.stream.replaced,
            self.ids,
            None if self.request.settings.sampling.greedy else self.sampler.seed,
        )


class LocalDecoder:
    """See Decoder. `ctx` has `n_places` sequences and room for what they may need together; more
    sequences, and room for `stem_cells`, serve stems."""

    def __init__(
        self, ctx: Any, tokenizer: Any, n_places: int, n_ubatch: int, stem_cells: int = 0
    ) -> None:
        self.ctx, self.tokenizer = ctx, tokenizer
        self.n_ubatch = n_ubatch
        self.n_prompt = self.n_shared = self.n_generated = 0
        self.stems = Stems(ctx, range(n_places, ctx.params.n_seq_max), stem_cells)
        self._free = list(range(n_places))[::-1]
        self._places: list[Place] = []
        self._done: list[Answer] = []

    @property
    def n_free(self) -> int:
        return len(self._free)

    @property
    def n_busy(self) -> int:
        return len(self._places) + len(self._done)

    def start(self, request: Request) -> None:
        try:
            place = Place(self._free[-1], request, self.tokenizer)
            if request.begin:
                self.ctx.encode(request.plan.ids, seq_id=place.seq)
                self.n_prompt += len(request.plan.ids) - len(request.begin)
        except LlamapyError as e:
            if e.exit_code == ABORTED:
                raise
            self._done.append(Answer(request.number, error=e))
            return
        if request.plan.n_max == 0:
            self._done.append(place.answer(request.plan.limit))
            return
        self._places.append(place)
        self._free.pop()

    def step(self) -> list[Answer]:
        """One ubatch. Lets what is wrong with the whole step pass, with nobody's answer in it."""
        done, self._done = self._done, []
        parts = self._parts()
        if not parts:
            return done
        batch = _batch(parts)
        wanted = [place for place, n in parts if n == len(place.todo)]
        for place, n in parts:
            self.n_prompt += n if not place.ids else 0
            place.advance(n)
        for order, found in self.ctx.parts(batch, self.ctx.ends):
            rows = found.tolist() if self.ctx.ends == HIGHEST else found
            for i, row in zip(order.tolist(), rows, strict=True):
                answer = self._take(wanted[i], row)
                if answer is not None:
                    done.append(answer)
        for place, _ in parts:
            if place.stems:
                self._pass_stems(place)
        return done

    def _take(self, place: Place, found: Any) -> Answer | None:
        try:
            answer = place.take(found)
        except NumericError as e:
            answer = Answer(place.request.number, error=e)
        else:
            self.n_generated += 1
        if answer is not None:
            self._places.remove(place)
            self.ctx.seq_rm(place.seq, 0)
            self._free.append(place.seq)
        return answer

    def _parts(self) -> list[tuple[Place, int]]:
        """Who gets how many tokens of the next ubatch: first those that generate. A prompt ends its
        part with a stem, and waits while another one comes to the same stem."""
        room = self.n_ubatch
        parts = []
        making: set[int] = set()
        places = self._places
        if not all(p.ids for p in places):
            places = sorted(places, key=lambda p: not p.ids)
        for place in places:
            n = len(place.todo)
            if place.stems:
                self._copy_stem(place)
                n = len(place.todo)
            if place.stems:
                stem = place.stems[0]
                n = 0 if stem.number in making else stem.length - place.n_past
                making.add(stem.number)
            n = min(n, room)
            if n:
                parts.append((place, n))
                room -= n
        return parts

    def _copy_stem(self, place: Place) -> None:
        n = self.stems.copy(place.stems, place.n_past, place.seq)
        if n:
            self.n_prompt += n - place.n_past
            self.n_shared += n - place.n_past
            place.advance(n - place.n_past)
            self._pass_stems(place)

    def _pass_stems(self, place: Place) -> None:
        while place.stems and place.stems[0].length <= place.n_past:
            stem, *rest = place.stems
            place.stems = tuple(rest)
            self.stems.passed(stem, place.seq, at=stem.length == place.n_past)


def _batch(parts: list[tuple[Place, int]]) -> Batch:
    if all(n == 1 == len(place.todo) for place, n in parts):
        return Batch(
            ints([place.todo[0] for place, _ in parts]),
            ints([place.n_past for place, _ in parts]),
            tuple([place.of for place, _ in parts]),
            np.frombuffer(b"\1" * len(parts), np.bool_),
        )
    tokens: list[int] = []
    pos: list[int] = []
    seqs: list[tuple[int, ...]] = []
    want: list[bool] = []
    for place, n in parts:
        tokens += place.todo[:n]
        pos += range(place.n_past, place.n_past + n)
        seqs += [place.of] * n
        want += [False] * (n - 1) + [n == len(place.todo)]
    return Batch(
        np.array(tokens, np.int32), np.array(pos, np.int32), tuple(seqs), np.array(want, np.bool_)
    )
