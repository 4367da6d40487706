"""HellaSwag, Winogrande and multiple choice on a model that is a script: what is scored against
numpy in float64, which tasks are drawn, what is kept and refused."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_model import BOS, FakeModel, FakeTokenizer, HistoryContext, says

from llamapy.app.evaluate.formats import Task, draw, winogrande
from llamapy.cli import options
from llamapy.cli.main import main

N = 9


class Context(HistoryContext):
    broken_after = -1

    def spoil(self, out: list[Any]) -> None:
        if 0 <= self.broken_after < len(self.calls):
            out[-1][7] = np.nan


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., FakeModel]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fake_model.FakeContext", Context)
    for name, data in (("h", hellaswag()), ("w", grande()), ("m", choices())):
        Path(name).write_bytes(data)

    def set_model(**more: Any) -> FakeModel:
        model = FakeModel(**more)
        monkeypatch.setattr(options, "open_model", lambda o, **more: model)
        return model

    return set_model


def hellaswag() -> bytes:
    lines = []
    for i in range(N):
        lines += [f"Context {i} is", str(i % 4), f"a{i}", "abc", "hello world", "a"]
    return "\n".join(lines).encode() + b"\n"


def grande() -> bytes:
    lines = [f"{i},Ann met Bob and _ was gl{i}d.,Ann,Robert,{1 + i % 2}" for i in range(N - 2)]
    lines += ['7,"Well, a _ sat, and sat",cat,doggy,2', "8,It is _b,a,c,1"]
    return "\n".join(lines).encode() + b"\n"


def text(s: str) -> bytes:
    return struct.pack("<I", len(s)) + s.encode()


def answers(texts: list[str], labels: list[int]) -> bytes:
    packed = struct.pack("<I", len(texts)) + b"".join(map(text, texts))
    return packed + struct.pack(f"<{len(labels)}i", *labels)


def choices(tasks: list[bytes] | None = None) -> bytes:
    if tasks is None:
        tasks = []
        for i in range(N):
            texts = ["no", "yes", "nothing", "none at all", "y"][: 2 + i % 4]
            labels = [int(k == i % 2) for k in range(len(texts))]
            tasks.append(text(f"Is {i}?") + answers(texts, labels) + answers([], []))
    at, offsets = 4 + 4 * len(tasks), []
    for task in tasks:
        offsets.append(at)
        at += len(task)
    return struct.pack(f"<I{len(tasks)}I", len(tasks), *offsets) + b"".join(tasks)


def mean_logprob(full: str, first: int, end: int) -> float:
    """Of tokens first to end of BOS and the text's bytes."""
    ids = [BOS, *full.encode()]
    out = []
    for i in range(first, end):
        x = says(ids[:i]).astype(np.float64)
        out.append(x[ids[i]] - np.log(np.exp(x).sum()))
    return float(np.mean(out))


def alike(texts: list[str]) -> int:
    n = 0
    while len({t[: n + 1] for t in texts}) == 1 and n + 1 < min(map(len, texts)):
        n += 1
    return n + 1  # and BOS


def lines_of(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_bytes().splitlines()[1:]]


def ask(capfd: pytest.CaptureFixture[str], *args: str, code: int = 0) -> dict[str, Any]:
    assert main(["perplexity", "--json", *args]) == code
    found = json.loads(capfd.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_tasks_that_llama_perplexity_draws() -> None:
    """The numbers are those of std::mt19937 and libstdc++'s uniform_int_distribution."""
    tasks = [Task(i, (b"", b""), 0) for i in range(10042)]
    left = list(range(10042))
    where = [4187, 10012, 7232, 9361, 1, 1285, 3034, 10025, 1472, 2368, 926, 3978]
    assert [t.index for t in draw("hellaswag", tasks, 12)] == [left.pop(i) for i in where]
    assert len(draw("hellaswag", tasks, None)) == len(draw("hellaswag", tasks, 0)) == 400
    assert sorted(t.index for t in draw("hellaswag", tasks[:50], 99)) == list(range(50))
    left, out = list(range(1267)), []
    for i in [528, 1262, 911, 1178, 0, 161, 381, 1258, 184, 296]:
        out.append(left[i])
        left[i] = left[-1]
        left.pop()
    for kind, n in (("winogrande", 1268), ("multiple-choice", 1267)):
        assert [t.index for t in draw(kind, tasks[:n], 10)] == out
        assert draw(kind, tasks[:n], None) == draw(kind, tasks[:n], n) == tasks[:n]
        assert len(draw(kind, tasks[:n], n - 1)) == n - 1


def test_hellaswag(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    got = ask(capfd, "-f", "h", "--hellaswag", "--chunks-out", "c")
    lines = lines_of("c")
    assert [x["task"] for x in lines] == list(range(1, N + 1))
    assert sorted(x["index"] for x in lines) == list(range(N))
    right = 0
    for line in lines:
        i = line["index"]
        texts = [f"Context {i} is {ending}" for ending in (f"a{i}", "abc", "hello world", "a")]
        first = alike(texts)
        want = [mean_logprob(t, first, len(t) + 1) for t in texts]
        assert line["scores"] == pytest.approx(want, rel=1e-6)
        assert line["choice"] == int(np.argmax(want)) and line["gold"] == i % 4
        right += line["choice"] == i % 4
    assert got["method"] == "hellaswag" and got["n_done"] == N and got["n_failed"] == 0
    p = right / N
    assert 0 < p < 1 and got["accuracy"] == p and got["chance"] == 0.25
    assert got["accuracy_error"] == pytest.approx(math.sqrt(p * (1 - p) / (N - 1)))
    z = 1.95996398454  # the ends of Wilson's interval are where the true share is z sigmas away
    for end in got["interval95"]:
        assert abs(p - end) == pytest.approx(z * math.sqrt(end * (1 - end) / N), rel=1e-9)


def test_winogrande(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    got = ask(capfd, "-f", "w", "--winogrande", "--chunks-out", "c")
    for i, line in enumerate(lines_of("c")):
        before, after, pair = f"Ann met Bob and {{}} was gl{i}d.", 8, ("Ann", "Robert")
        if i == 7:
            before, after, pair = "Well, a {} sat, and sat", 12, ("cat", "doggy")
        if i == 8:  # too little differs: the choice counts
            before, after, pair = "It is {}b", 1, ("a", "c")
        texts = [before.format(choice) for choice in pair]
        behind = len(before.split("}")[1])
        firsts = [len(t) + 1 - behind for t in texts] if i < 8 else [alike(texts)] * 2
        del after
        want = [mean_logprob(t, f, len(t)) for t, f in zip(texts, firsts, strict=True)]
        assert line["index"] == i and line["scores"] == pytest.approx(want, rel=1e-6)
        assert line["choice"] == (0 if want[0] > want[1] else 1)
    assert got["n_done"] == N and got["chance"] == 0.5 and not got["drawn"]


def test_multiple_choice(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    got = ask(capfd, "-f", "m", "--multiple-choice", "--chunks-out", "c")
    for i, line in enumerate(lines_of("c")):
        texts = [f"Is {i}? {a}" for a in ["no", "yes", "nothing", "none at all", "y"][: 2 + i % 4]]
        want = [mean_logprob(t, alike(texts), len(t) + 1) for t in texts]
        assert line["scores"] == pytest.approx(want, rel=1e-6) and line["gold"] == i % 2
    assert got["chance"] == pytest.approx(np.mean([1 / (2 + i % 4) for i in range(N)]))
    assert main(["perplexity", "-f", "m", "--multiple-choice"]) == 0
    out = capfd.readouterr().out
    assert out.startswith(
        f"Final multiple choice score (9 tasks): {100 * got['accuracy']:.4f}% +/-"
    )


@pytest.mark.parametrize("more", [["-np", "1"], ["-np", "3"], ["-b", "1"], ["-np", "99"]], ids=str)
def test_batches_do_not_matter(
    more: list[str], use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind, name in (("hellaswag", "h"), ("winogrande", "w"), ("multiple-choice", "m")):
        use()
        ask(capfd, "-f", name, f"--{kind}", "--chunks-out", f"{name}1")
        use()
        ask(capfd, "-f", name, f"--{kind}", "--chunks-out", f"{name}2", *more)
        assert Path(f"{name}1").read_bytes() == Path(f"{name}2").read_bytes()


def test_what_answers_share_is_computed_once(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    model = use()
    ask(capfd, "-f", "h", "--hellaswag", "--tasks", "1", "--chunks-out", "c")
    (line,) = lines_of("c")
    i = line["index"]
    texts = [f"Context {i} is {ending}" for ending in (f"a{i}", "abc", "hello world", "a")]
    shared = alike(texts)
    n = shared + sum(len(t) - shared for t in texts)  # the last token of each is not evaluated
    assert model.contexts[0].calls == [(n, str(1 + sum(len(t) - shared for t in texts)))]
    assert model.contexts[0].options["n_ctx"] == n


def test_resume(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    args = ["-f", "h", "--hellaswag", "-np", "4"]
    whole = ask(capfd, *args, "--chunks-out", "whole")
    raw = Path("whole").read_bytes()
    first = raw.index(b"\n") + 1
    for cut in (0, first, first + 3, len(raw) // 2, len(raw)):
        Path("part").write_bytes(raw[:cut])
        got = ask(capfd, *args, "--chunks-out", "part", "--resume")
        assert got["n_resumed"] == max(raw[:cut].count(b"\n") - 1, 0)
        assert Path("part").read_bytes() == raw and got["accuracy"] == whole["accuracy"]
    ask(capfd, *args, "--tasks", "3", "--chunks-out", "more")
    assert raw.startswith(Path("more").read_bytes())
    assert ask(capfd, *args, "--chunks-out", "more", "--resume")["n_resumed"] == 3
    monkeypatch.setattr(Context, "fail_at", 2)
    assert main(["perplexity", *args, "--chunks-out", "failed"]) == 1
    assert Path("failed").read_bytes() == b"".join(raw.splitlines(keepends=True)[:3])
    Path("h").write_bytes(hellaswag().replace(b"abc", b"abd"))
    capfd.readouterr()
    assert main(["perplexity", *args, "--chunks-out", "whole", "--resume"]) == 2
    assert "its chunks have file" in capfd.readouterr().err


def test_a_task_that_does_not_fit(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    args = ["-f", "m", "--multiple-choice", "-c", "14", "--chunks-out", "c"]
    got = ask(capfd, *args, code=7)
    lines = lines_of("c")
    failed = [x["index"] for x in lines if "error" in x]
    assert failed == [2, 3, 6, 7] and "--ctx-size" in lines[2]["error"]
    assert (got["n_tasks"], got["n_done"], got["n_failed"]) == (9, 5, 4)
    raw = Path("c").read_bytes()
    Path("c").write_bytes(raw[: raw.index(b'{"task": 4')])
    assert ask(capfd, *args, "--resume", code=7)["n_failed"] == 4
    assert Path("c").read_bytes() == raw
    use()
    assert main(["perplexity", "-f", "m", "--multiple-choice", "-c", "2"]) == 7
    out, err = capfd.readouterr()
    assert out == "no multiple choice score: no task could be asked\n" and "9 of 9 tasks" in err


def test_nothing_before_the_answers(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use(tokenizer=FakeTokenizer(add_bos=False))
    Path("w").write_bytes(b"0,_ is,a,b,1\n1,So _ is it,a,b,1\n2,So is _,a,b,1\n")
    got = ask(capfd, "-f", "w", "--winogrande", code=7)
    assert (got["n_done"], got["n_failed"]) == (2, 1)


def test_no_numbers(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    monkeypatch.setattr(Context, "broken_after", 1)
    args = ["perplexity", "-f", "h", "--hellaswag", "-np", "4", "--chunks-out", "c"]
    assert main(args) == 8
    assert "NaN or Inf in the logits of task 2" in capfd.readouterr().err
    assert len(lines_of("c")) == 1


@pytest.mark.parametrize(
    ("flag", "raw", "says"),
    [
        ("--hellaswag", b"a\n0\nb\nc\nd\n", "5 lines, which are no tasks of six lines"),
        ("--hellaswag", b"", "1 lines, which are no tasks"),
        ("--hellaswag", b"a\n4\nb\nc\nd\ne\n", "line 2 must be the number of an ending"),
        ("--winogrande", b"0,a _ b,c,d,1\n1,a b,c,d,1\n", "line 2 is not"),
        ("--winogrande", b"0,a _ b,c,d\n", "line 1 is not"),
        ("--winogrande", b"0,a _ b,c,d,3\n", "line 1 is not"),
        ("--winogrande", b'0,"a _ b,c,d,1\n', "line 1 is not"),
        ("--winogrande", b"", "line 1 is not"),
        ("--multiple-choice", b"", "ends within the offsets"),
        ("--multiple-choice", struct.pack("<I", 1 << 31), "cannot hold 2147483648 tasks"),
        ("--multiple-choice", struct.pack("<I", 0), "no tasks"),
        ("--multiple-choice", struct.pack("<II", 1, 1 << 31), "ends within task 1"),
        ("--multiple-choice", struct.pack("<III", 1, 8, 1 << 31), "ends within task 1"),
        (
            "--multiple-choice",
            choices([text("Q") + struct.pack("<I", 101)]),
            "task 1 has 101 answers",
        ),
        (
            "--multiple-choice",
            choices([text("Q") + answers(["a", "b"], [1, 1]) + answers([], [])]),
            "task 1 has no question, answers, or right answer",
        ),
        ("--multiple-choice", choices()[:-3], "ends within task 9"),
    ],
)
def test_files_that_are_not_such(
    flag: str, raw: bytes, says: str, use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    Path("x").write_bytes(raw)
    assert main(["perplexity", "-f", "x", flag]) == 2
    out, err = capfd.readouterr()
    assert out == "" and says in err and err.count("\n") == 1


def test_flags_that_do_not_go_together(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    for more in (
        ["--hellaswag", "--winogrande"],
        ["--hellaswag", "--method", "hf"],
        ["--hellaswag", "--kl-base", "x"],
        ["--tasks", "3"],
    ):
        assert main(["perplexity", "-f", "h", *more]) == 2


def test_a_line_of_winogrande() -> None:
    raw = b'0,"A, _, c",x,y,2\r\n1,"q" _ q,x y,z,1\n'
    a, b = winogrande(raw)
    assert (a.texts, a.heads, a.gold) == ((b"A, x, c", b"A, y, c"), (b"A, x", b"A, y"), 1)
    assert (b.texts, b.gold) == ((b'"q" x y q', b'"q" z q'), 0)
