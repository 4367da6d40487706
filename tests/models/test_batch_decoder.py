"""Many prompts decoded together: each gets what it would alone, and what they share is evaluated
once, whatever a model keeps of its tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import random_t5
from recurrent_models import MODELS as RECURRENT

from llamapy import Model
from llamapy.app.batch.decoder import LocalDecoder, Request
from llamapy.app.batch.stems import find_stems
from llamapy.app.fit import Fit
from llamapy.app.generate import Settings
from llamapy.base.errors import NumericError
from llamapy.models.builder import HIGHEST, LOGITS
from llamapy.runtime.batch import Batch, single
from llamapy.sample import SamplerParams

N = 6  # tokens of an answer
GREEDY = Settings(sampling=SamplerParams(temp=0.0))


class Ids:
    """A vocabulary whose texts do not matter."""

    n_vocab, eog, suppress = 128, frozenset[int](), ()

    def piece(self, id: int, special: bool = False) -> bytes:
        return b"x"


def prompts() -> list[list[int]]:
    """Two beginnings, one of which goes on in two ways, and prompts on their own."""
    rng = np.random.default_rng(5)
    a, b, c, d = (rng.integers(0, 128, n).tolist() for n in (40, 33, 21, 90))
    tails = [rng.integers(0, 128, n).tolist() for n in (1, 7, 30, 2, 1, 12, 44, 3, 5)]
    heads = [a, [*a, *b], d, [*a, *c], [*a, *b], [], d, [*a, *c], a]
    return [[*head, *tail] for head, tail in zip(heads, tails, strict=True)]


def n_distinct(texts: list[list[int]]) -> int:
    """Tokens to evaluate when nothing is evaluated twice."""
    return len({tuple(t[: i + 1]) for t in texts for i in range(len(t))})


def alone(model: Model, ids: list[int]) -> list[int]:
    with model.context(n_ctx=256, n_threads=1) as ctx:
        logits, out = ctx.decode(ids), []
        for _ in range(N):
            out.append(int(logits[0].argmax()))
            logits = ctx.decode(out[-1:])
        return out


def answer(text: list[int], model: Model) -> list[int]:
    """Of a model whose encoder reads the text."""
    with model.context(n_ctx=256, n_threads=1) as ctx:
        ctx.encode(text)
        out = [model.hparams.stacks.start]
        for _ in range(N):
            out.append(int(ctx.decode(out[-1:])[0].argmax()))
        return out[1:]


def together(
    model: Model, texts: list[list[int]], n_places: int, n_ubatch: int, never: Any = None
) -> Any:
    start = model.hparams.stacks
    begin = (start.start,) if start.n_dec else ()
    stems = [()] * len(texts) if begin else find_stems(texts)
    n_stems = len({stem.number for of in stems for stem in of})
    sizes = {"n_ctx": 1024, "n_seq_max": n_places + n_stems, "n_ubatch": n_ubatch}
    model.will_generate(100, n_highest=n_places if never is not None else 0)
    with model.context(**sizes, n_threads=2, never=never, rounded=True) as ctx:
        decoder = LocalDecoder(ctx, Ids(), n_places, n_ubatch, stem_cells=300)
        answers, todo = {}, list(enumerate(texts))
        while todo or decoder.n_busy:
            while todo and decoder.n_free:
                i, ids = todo.pop(0)
                decoder.start(Request(i, Fit(ids, 256, N, "length"), GREEDY, stems[i], begin))
            answers |= {a.number: a.ids for a in decoder.step()}
        assert decoder.n_prompt == sum(map(len, texts))
        assert decoder.n_generated == N * len(texts)
        assert all(ctx.n_past(s) == 0 for s in range(sizes["n_seq_max"]))
        return [answers[i] for i in range(len(texts))], decoder.n_prompt - decoder.n_shared


def check(model: Model) -> None:
    texts = prompts()
    want = [alone(model, ids) for ids in texts]
    for n_places, n_ubatch, never in ((1, 64, ()), (3, 16, None), (9, 512, ())):
        got, n_evaluated = together(model, texts, n_places, n_ubatch, never)
        assert got == want and n_evaluated == n_distinct(texts)


@pytest.mark.parametrize("name", ["llama-dense", "gemma3-dense"])
def test_attention(open_model, name: str) -> None:
    check(open_model(name))


@pytest.mark.parametrize("name", sorted(RECURRENT)[::3])
def test_states(name: str, tmp_path) -> None:
    with Model.open(RECURRENT[name].write(tmp_path / "m.gguf")) as model:
        check(model)


def test_texts_for_an_encoder(tmp_path) -> None:
    texts = prompts()[:4]
    with Model.open(random_t5.write(tmp_path / "m.gguf", "t5")) as model:
        want = [answer(text, model) for text in texts]
        for n_places in (1, 3):
            assert together(model, texts, n_places, 128) == (want, sum(map(len, texts)))


@pytest.mark.parametrize("measured", [False, True])
def test_a_graph_may_end_in_where_the_highest_logits_are(open_model, measured: bool) -> None:
    """But for some tokens: of as many rows as were asked for, in graphs that give more, whether or
    not the rows of the output matrix are measured; logits can still be asked for."""
    model = open_model("llama-dense")
    if measured:
        model.will_generate(100, n_highest=8)
    never = (3, 17, 40)
    sizes = {"n_ctx": 64, "n_seq_max": 8, "n_threads": 2}
    with (
        model.context(**sizes, never=never, rounded=True) as ctx,
        model.context(**sizes) as other,
    ):
        assert ctx.ends == HIGHEST and other.ends == LOGITS
        for n in (1, 5, 8, 7):
            want = np.ones(n, np.bool_)
            seqs = tuple((s,) for s in range(n))
            pos = np.array([ctx.n_past(s) for s in range(n)], np.int32)
            batch = Batch(np.arange(n, dtype=np.int32), pos, seqs, want)
            logits = other.decode_batch(batch)
            logits[:, never] = -np.inf
            ((order, ids),) = ctx.parts(batch, HIGHEST)
            assert order.tolist() == list(range(n))
            assert ids.tolist() == logits.argmax(axis=1).tolist()
        ((_, ids),) = ctx.parts(single([1, 2], ctx.n_past(0), 0, "none"), HIGHEST)
        assert ids.shape[0] == 0
        got, want = ctx.decode([5]), other.decode([1, 2, 5])
        assert np.array_equal(got, want)


@pytest.mark.parametrize("never", [None, ()])
def test_broken_logits_are_the_error_of_their_line_alone(open_model, never: Any) -> None:
    model = open_model("llama-dense")
    with model.context(n_ctx=256, n_seq_max=3, n_threads=2, never=never) as ctx:
        parts = ctx.parts

        def broken(batch: Batch, ends: str):
            for order, found in parts(batch, ends):
                found = found.copy()
                found[1] = -1 if ends == HIGHEST else np.nan
                yield order, found

        ctx.parts = broken
        decoder = LocalDecoder(ctx, Ids(), 3, 512)
        for i in range(3):
            decoder.start(Request(i, Fit([i + 1, 7], 256, 1, "length"), GREEDY))
        answers = sorted(decoder.step(), key=lambda a: a.number)
        assert [len(a.ids) for a in answers] == [1, 0, 1]
        assert isinstance(answers[1].error, NumericError) and not answers[0].error
        assert "the logits are broken" in str(answers[1].error)
        assert decoder.n_busy == 0 and decoder.n_generated == 2
