"""Generation by its rules, on a model that is a script of logits."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_model import BOS, EOS, WORD, FakeModel, FakeTokenizer

from llamapy.app.generate import Finished, Prefill, Settings, Started, Token, generate
from llamapy.base.errors import ContextError, LlamapyError, NumericError, UsageError
from llamapy.base.log import log
from llamapy.sample import SamplerParams

GREEDY = SamplerParams(temp=0.0)


@pytest.fixture(autouse=True)
def _fresh_log() -> None:
    log.setup()


def run(
    model: FakeModel, prompt: Any = "p", *, interrupted: Any = lambda: False, **settings: Any
) -> tuple[list[Any], Finished]:
    settings.setdefault("sampling", GREEDY)
    events = list(generate(model, prompt, Settings(**settings), interrupted=interrupted))
    assert isinstance(events[-1], Finished)
    streamed = "".join(e.text for e in events if isinstance(e, Token)) + events[-1].rest
    assert streamed == events[-1].text
    return events, events[-1]


def test_events_come_in_order() -> None:
    events, end = run(FakeModel(b"Hi"), n_predict=5)
    assert [type(e) for e in events] == [Started, Prefill, Token, Token, Finished]
    assert events[0].ids == [BOS, ord("p")] and events[0].n_ctx == 256
    assert [e.id for e in events[2:4]] == [ord("H"), ord("i")]
    assert (end.text, end.raw, end.ids, end.reason) == ("Hi", b"Hi", [72, 105], "eos")
    assert (end.n_prompt, end.n_generated, end.n_cached) == (2, 2, 0)
    assert set(end.seconds) == {"prompt", "repack", "decode", "sample", "text", "total"}


@pytest.mark.parametrize(
    ("n_predict", "text", "reason", "evaluated"),
    [(3, "abc", "length", "ab"), (0, "", "length", ""), (-1, "abcdef", "eos", "abcdef")],
)
def test_how_it_ends(n_predict: int, text: str, reason: str, evaluated: str) -> None:
    model = FakeModel(b"abcdef")
    _, end = run(model, n_predict=n_predict)
    assert (end.text, end.reason) == (text, reason)
    # The last token of a length is not evaluated: nobody asks what follows it.
    assert model.contexts[0].seen == [BOS, ord("p"), *evaluated.encode()]


def test_the_end_mark_alone_is_an_empty_answer() -> None:
    _, end = run(FakeModel(b""))
    assert (end.text, end.ids, end.reason) == ("", [], "eos")


def test_eos_can_be_ignored() -> None:
    ids = [ord("a"), EOS, ord("b")]
    _, end = run(FakeModel(ids), n_predict=3, sampling=SamplerParams(temp=0.0, ignore_eos=True))
    assert end.reason == "length" and EOS not in end.ids and end.n_generated == 3


@pytest.mark.parametrize("stop", ["Pari", "is.", "ris. "])
def test_a_stop_text_is_cut_off_exactly(stop: str) -> None:
    _, end = run(FakeModel(b"It is Paris. Yes"), stop=("never", stop))
    assert end.reason == "stop" and end.stop == stop.encode()
    assert end.text == "It is Paris. Yes".partition(stop)[0]
    _, end = run(FakeModel(b"It is Paris. Yes"), stop=(stop,), include_stop=True)
    assert end.text.endswith(stop)


def test_a_beginning_of_a_stop_that_is_none_is_released() -> None:
    events, end = run(FakeModel(b"a\n\tb\n"), stop=("\n\n",))
    assert end.text == "a\n\tb\n" and end.reason == "eos" and end.stop is None
    assert end.rest == "\n"


def test_a_character_split_over_tokens_comes_once() -> None:
    events, end = run(FakeModel("x🦙y".encode()))
    assert [e.text for e in events if isinstance(e, Token)] == ["x", "", "", "", "🦙", "y"]
    assert not end.replaced


def test_half_a_character_at_the_end_is_replaced_and_said() -> None:
    _, end = run(FakeModel([ord("x"), 0xF0, 0x9F, EOS]))
    assert end.text == "x\ufffd" and end.replaced and end.raw == b"x\xf0\x9f"
    assert [w["code"] for w in log.warned] == ["W07"]


def test_control_tokens_are_printed_only_when_asked() -> None:
    assert run(FakeModel([WORD, BOS, 33]))[1].text == " wörd!"
    assert run(FakeModel([WORD, BOS, 33]), print_special=True)[1].text == " wörd<bos>!"


def test_a_context_of_64() -> None:
    letters = "x" * 61
    _, end = run(FakeModel(b"abc"), letters + "y", n_ctx=64)  # 63 with BOS
    assert (end.n_prompt, end.text, end.reason) == (63, "a", "context")
    for n in (63, 64, 999):
        model = FakeModel(b"abc")
        with pytest.raises(ContextError) as e:
            run(model, "x" * n, n_ctx=64)
        assert re.findall(r"\d+", str(e.value))[:4] == [str(n + 1), "1", "64", str(n + 2)]
        assert not model.contexts  # refused before any memory was asked for


def test_what_is_left_out_is_said() -> None:
    events, end = run(
        FakeModel(b"abc"), "0123456789" * 10, n_ctx=64, n_predict=4, on_overflow="truncate-left"
    )
    assert events[0].dropped == (1, 42) and events[0].ids[0] == BOS
    assert end.n_prompt == 60 and end.reason == "eos"
    assert log.warned == [
        {"code": "W04", "message": "left out 41 prompt tokens, 1 to 41, to fit 64"}
    ]


def test_a_context_beyond_training_is_said() -> None:
    run(FakeModel(b"a"), n_ctx=4096)
    assert [w["code"] for w in log.warned] == ["W05"]


def test_an_empty_prompt() -> None:
    events, _ = run(FakeModel(b"a"), "")
    assert events[0].ids == [BOS] and not log.warned
    events, _ = run(FakeModel(b"a", tokenizer=FakeTokenizer(add_bos=False)), "")
    assert events[0].ids == [BOS] and [w["code"] for w in log.warned] == ["W08"]
    with pytest.raises(UsageError, match="empty prompt, and the model has no BOS"):
        run(FakeModel(b"a", tokenizer=FakeTokenizer(bos=None)), "")
    with pytest.raises(UsageError, match="no tokens"):
        run(FakeModel(b"a"), [])


def test_control_text_stays_text_and_is_said() -> None:
    events, _ = run(FakeModel(b"a"), "<eos>")
    assert events[0].ids == [BOS, *b"<eos>"] and [w["code"] for w in log.warned] == ["W06"]
    log.setup()
    events, _ = run(FakeModel(b"a"), "<eos>", parse_special=True)
    assert events[0].ids == [BOS, EOS] and not log.warned


def test_ids_are_taken_as_they_are() -> None:
    assert run(FakeModel(b"a"), [5, 6])[0][0].ids == [5, 6]


def test_the_prompt_goes_ubatch_by_ubatch() -> None:
    model = FakeModel(b"a")
    events, _ = run(model, "123456", n_ubatch=3)
    assert model.contexts[0].calls[:3] == [(3, "none"), (3, "none"), (1, "last")]
    assert [e for e in events if isinstance(e, Prefill)] == [
        Prefill(3, 7), Prefill(6, 7), Prefill(7, 7),
    ]  # fmt: skip


def test_a_stop_between_steps_keeps_what_there_is() -> None:
    model = FakeModel(b"abcdef")
    _, end = run(model, interrupted=lambda: bool(model.contexts) and model.contexts[0].n_given > 3)
    assert (end.text, end.reason) == ("abcd", "interrupted")
    assert model.n_open == 0


def test_a_step_that_is_broken_off_keeps_what_there_is() -> None:
    class Aborted(LlamapyError):
        exit_code = 130

    asked: list[bool] = []

    def fail(tokens: list[int]) -> None:
        if tokens == [ord("b")]:
            asked.append(True)
            raise Aborted("broken off")

    _, end = run(FakeModel(b"abc", on_decode=fail), interrupted=lambda: bool(asked))
    assert (end.text, end.reason) == ("ab", "interrupted")
    asked.clear()
    with pytest.raises(Aborted):
        run(FakeModel(b"abc", on_decode=fail))


def test_a_prompt_that_is_interrupted_has_an_empty_answer() -> None:
    model = FakeModel(b"abc")
    _, end = run(model, "123456", n_ubatch=2, interrupted=lambda: len(model.contexts[0].seen) >= 4)
    assert (end.text, end.reason, model.contexts[0].seen) == ("", "interrupted", [BOS, *b"123"])


def test_logits_that_are_no_numbers() -> None:
    with pytest.raises(NumericError, match="NaN"):
        run(FakeModel(b"abc", broken=True))


def test_the_sampler_is_told_of_the_prompt() -> None:
    """With every repeat forbidden, the letters of the prompt do not come again."""
    hard = SamplerParams(temp=0.0, presence_penalty=100.0)
    _, end = run(FakeModel(b"pq"), "p", n_predict=2, sampling=hard)
    assert end.ids[0] != ord("p") and end.ids[1] == ord("q")


def test_the_seed_in_use_is_told() -> None:
    events, end = run(FakeModel(b"a"), sampling=SamplerParams(seed=7))
    assert end.seed == 7 and events[0].sampling["seed"] == 7
    seeds = {run(FakeModel(b"a"), sampling=SamplerParams())[1].seed for _ in range(3)}
    assert len(seeds) == 3


def test_settings_reach_the_context() -> None:
    model = FakeModel(b"a")
    run(model, n_predict=1, n_ctx=99, n_batch=8, n_ubatch=4, n_threads=3, type_k="f32")
    assert model.contexts[0].options == {
        "n_ctx": 99,
        "n_batch": 8,
        "n_ubatch": 4,
        "type_k": "f32",
        "type_v": "f16",
        "n_threads": 3,
        "n_threads_batch": None,
    }


def test_what_follows_the_first_token_is_announced_once() -> None:
    model = FakeModel(b"abc")
    list(generate(model, b"x", Settings(n_predict=9)))
    assert model.told == [8]
