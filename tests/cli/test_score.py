"""`llamapy score` on a model that is a script: log-probabilities against numpy in float64, records
in order, failures among them, resumed."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_model import BOS, EOS, N_VOCAB, FakeModel, FakeTokenizer, HistoryContext, says

from llamapy.cli import options
from llamapy.cli.main import main

LINES: list[Any] = [
    {"id": "a", "context": "The sky is", "continuations": [" blue", " green", " blue and wide"]},
    {"custom_id": "b", "context": "", "continuations": ["x"]},
    {"context": [1, 2, 3], "continuations": [[4], [5, 6], [4, 7]]},
    {"text": "abc"},
    {"text": [5, 6]},
    {"context": "Ab", "continuations": [str(i) for i in range(12)]},
]


class Context(HistoryContext):
    broken_at = -1

    def spoil(self, out: list[Any]) -> None:
        if len(self.calls) == self.broken_at:
            out[0][3] = np.inf


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., FakeModel]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fake_model.FakeContext", Context)
    write(*LINES)

    def set_model(**more: Any) -> FakeModel:
        model = FakeModel(**more)
        monkeypatch.setattr(options, "open_model", lambda o, **more: model)
        return model

    return set_model


def write(*lines: Any) -> None:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    Path("in").write_text("\n".join(texts) + "\n")


def score(capfd: pytest.CaptureFixture[str], *args: str, code: int = 0) -> list[dict[str, Any]]:
    assert main(["score", "in", *args]) == code
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def expected(ids: list[int], first: int) -> tuple[list[float], bool]:
    out, greedy = [], True
    for i in range(first, len(ids)):
        x = says(ids[:i]).astype(np.float64)
        out.append(x[ids[i]] - np.log(np.exp(x).sum()))
        greedy &= int(x.argmax()) == ids[i]
    return out, greedy


def check(found: dict[str, Any], ids: list[int], first: int) -> None:
    want, greedy = expected(ids, first)
    assert found["ids"] == ids[first:] and found["n"] == len(want)
    assert found["logprobs"] == pytest.approx(want, rel=1e-6, abs=1e-6)
    assert found["logprob"] == pytest.approx(sum(want), rel=1e-6)
    assert found["greedy"] is greedy


def test_values(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    got = score(capfd)
    assert [r.get("id", r.get("custom_id")) for r in got] == ["a", "b", 3, 4, 5, 6]
    assert all(r["status"] == "ok" for r in got)
    for line, record in zip(LINES, got, strict=True):
        if "text" in line:
            text = line["text"]
            ids = text if isinstance(text, list) else [BOS, *text.encode()]
            check(record, ids, 1)
            assert record["ppl"] == pytest.approx(np.exp(-np.mean(record["logprobs"])))
            continue
        context = line["context"]
        before = context if isinstance(context, list) else [BOS, *context.encode()]
        assert record["n_context"] == len(before)
        for more, found in zip(line["continuations"], record["continuations"], strict=True):
            after = more if isinstance(more, list) else list(more.encode())
            check(found, [*before, *after], len(before))
        totals = [c["logprob"] for c in record["continuations"]]
        assert record["best"] == int(np.argmax(totals))


def test_greedy(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    ids = [9]
    for _ in range(3):
        ids.append(int(says(ids).argmax()))
    write({"context": ids[:1], "continuations": [ids[1:], [*ids[1:3], (ids[3] + 1) % N_VOCAB]]})
    (record,) = score(capfd)
    assert [c["greedy"] for c in record["continuations"]] == [True, False]


@pytest.mark.parametrize("more", [["-np", "1"], ["-np", "5"], ["-b", "1"], ["-np", "500"]], ids=str)
def test_batches_do_not_matter(
    more: list[str], use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    assert score(capfd, *more) == score(capfd)


def test_a_context_is_computed_once(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model = use()
    write(LINES[5])
    score(capfd)
    # BOS and two bytes, the digits, and the first digit of "10" and "11", which they share with "1"
    assert model.contexts[0].calls == [(3 + 2, str(1 + 2))]


def test_what_a_merge_takes_from_the_context_is_scored(
    use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    class Pairs(FakeTokenizer):
        """Two equal letters are one token."""

        def encode(self, text: str | bytes, **more: Any) -> list[int]:
            out: list[int] = []
            for id in super().encode(text, **more):
                if out and id == out[-1] and id < 200:
                    out[-1] = id + 50
                else:
                    out.append(id)
            return out

    use(tokenizer=Pairs())
    write({"context": "Cab", "continuations": ["b", "c"]})
    ((merged, plain),) = (r["continuations"] for r in score(capfd))
    check(merged, [BOS, 67, 97, 98 + 50], 3)
    check(plain, [BOS, 67, 97, 98, 99], 4)
    use(tokenizer=Pairs(add_bos=False))
    write({"context": "b", "continuations": ["b"]})
    (record,) = score(capfd, code=7)
    assert "nothing is before the continuation" in record["error"]["message"]


def test_control_tokens_are_text(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    write({"context": "a", "continuations": ["<eos>"]})
    (plain,), (special,) = score(capfd), score(capfd, "--special")
    assert plain["continuations"][0]["n"] == 5
    assert special["continuations"][0]["ids"] == [EOS]


BAD = {
    "oops": "no JSON",
    "[1]": "a line must be a JSON object",
    '{"context": "a"}': "the line has no continuations",
    '{"continuations": ["a"]}': "the line has no context",
    '{"context": "a", "continuations": []}': "at least one",
    '{"context": "a", "continuations": "b"}': "must be a list of texts",
    '{"context": "a", "continuations": [""]}': "a continuation is empty",
    '{"context": "a", "continuations": [[1]]}': "either texts or token ids",
    '{"context": [1], "continuations": ["a"]}': "either texts or token ids",
    '{"context": [1], "continuations": [[999]]}': "token 999 is outside the vocabulary of 259",
    '{"context": [], "continuations": [[1]]}': "the prompt has no tokens",
    '{"context": 5, "continuations": ["a"]}': "context must be a text or a list of token ids",
    '{"context": "a", "continuation": ["b"]}': "did you mean 'continuations'",
    '{"text": "a", "context": "b"}': "unknown parameter 'context'",
    '{"text": [3]}': "nothing to predict",
    '{"text": "0123456789abcdef"}': "--ctx-size 16",
}


def test_failures_are_records(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    good = {"context": "a", "continuations": ["b"]}
    write(*(x for line in BAD for x in (line, good)))
    got = score(capfd, "-c", "15", code=7)
    assert [r["id"] for r in got] == list(range(1, 2 * len(BAD) + 1))
    for record, words in zip(got[::2], BAD.values(), strict=True):
        assert record["status"] == "error" and words in record["error"]["message"]
    assert got[-2]["error"]["code"] == 4 and got[0]["error"]["code"] == 2
    assert all(r["status"] == "ok" for r in got[1::2])
    write({"id": 1, "text": "ab"}, {"id": 1, "text": "cd"})
    assert main(["score", "in"]) == 2
    assert "have the same id 1" in capfd.readouterr().err


def test_no_numbers(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    monkeypatch.setattr(Context, "broken_at", 1)
    got = score(capfd, "-np", "3", code=7)
    assert [r["status"] for r in got] == ["error", *["ok"] * 5]
    assert got[0]["error"] == {
        "code": 8,
        "kind": "NumericError",
        "message": "NaN or Inf in the logits",
    }


def test_resume(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    assert score(capfd, "-o", "whole") == []
    raw = Path("whole").read_bytes()
    side = Path("whole.job.json").read_bytes()
    for cut in (0, 9, len(raw) // 2, len(raw) - 1, len(raw)):
        Path("part").write_bytes(raw[:cut])
        Path("part.job.json").write_bytes(side)
        (result,) = score(capfd, "-o", "part", "--json", "-np", "2")
        assert result["kept"] == raw[:cut].count(b"\n") and result["done"] == 6 - result["kept"]
        assert Path("part").read_bytes() == raw
    monkeypatch.setattr(Context, "fail_at", 2)
    assert main(["score", "in", "-o", "failed", "-np", "3"]) == 1
    assert raw.startswith(Path("failed").read_bytes()) and Path("failed").read_bytes()
    monkeypatch.setattr(Context, "fail_at", -1)
    assert main(["score", "in", "-o", "failed"]) == 0 and Path("failed").read_bytes() == raw
    capfd.readouterr()
    assert main(["score", "in", "-o", "failed", "-ctk", "f32"]) == 2
    assert "was begun with params type_k 'f16', not 'f32'" in capfd.readouterr().err
    write({"id": "a", "text": "something else"}, *LINES[1:])
    assert main(["score", "in", "-o", "failed"]) == 2
    assert 'line 1 answers "a", which asked something else' in capfd.readouterr().err


def test_the_result(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    (result,) = score(capfd, "-o", "out", "--json")
    assert result["command"] == result["method"] == "score" and result["schema_version"] == 1
    assert result["counts"]["scored"] == sum(
        c["n"]
        for line in Path("out").read_text().splitlines()
        for c in json.loads(line).get("continuations", [json.loads(line)])
    )
    assert len(result["tokens"]) == 64 and result["params"]["type_k"] == "f16"
    (again,) = score(capfd, "-o", "out2", "--json", "-np", "1")
    assert again["tokens"] == result["tokens"]


def test_where_lines_come_from_and_go(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    from_file = score(capfd)
    raw = Path("in").read_bytes()
    stdin = SimpleNamespace(buffer=io.BytesIO(raw), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert main(["score"]) == 0
    assert [json.loads(x) for x in capfd.readouterr().out.splitlines()] == from_file
    stdin.buffer = io.BytesIO(b"")
    assert main(["score"]) == 2
    assert "no lines to answer" in capfd.readouterr().err
    assert main(["score", "in", "-o", "/dev/full"]) == 1
    assert "cannot write to /dev/full: No space left" in capfd.readouterr().err
    assert main(["score", "in", "-o", "/no/such/out"]) == 2
    assert main(["score", "in", "--json"]) == 2
