"""Lines of a batch: what is read, what is refused, what is kept in its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llamapy.app.batch.lines import Item, read_items
from llamapy.app.batch.out import Ordered, OutFile, as_line
from llamapy.app.generate import Settings
from llamapy.base.errors import LlamapyError, UsageError
from llamapy.sample import SamplerParams

BASE = Settings(n_predict=9, sampling=SamplerParams(temp=0.0, seed=3))
JOB: dict[str, Any] = {"llamapy": "1", "model": {"hash": "a"}, "params": {"seed": None, "n": 1}}


def items(*lines: Any) -> list[Item]:
    texts = [x if isinstance(x, str) else json.dumps(x) for x in lines]
    return read_items("\n".join(texts).encode(), BASE)


def test_overrides() -> None:
    one = {"prompt": "a", "id": "x", "n": 5, "temperature": 1, "seed": 8, "stop": ["b", "c"]}
    a, b = items(one, "", {"prompt": [1, 2]})
    assert (a.key, a.id, a.prompt, a.number) == ("id", "x", b"a", 1)
    assert (a.settings.n_predict, a.settings.stop) == (5, (b"b", b"c"))
    assert (a.settings.sampling.temp, a.settings.sampling.seed) == (1.0, 8)
    assert (b.id, b.prompt, b.settings) == (3, [1, 2], BASE)


def test_openai_lines() -> None:
    body = {"prompt": "a", "model": "m", "max_tokens": 4, "n": 1, "stream": False, "stop": "x"}
    line = {"custom_id": "q", "method": "POST", "url": "/v1/completions", "body": body}
    (a,) = items(line)
    assert a.error is None and (a.key, a.id, a.prompt) == ("custom_id", "q", b"a")
    assert (a.settings.n_predict, a.settings.stop) == (4, (b"x",))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "no JSON"),
        ("[1]", "must be a JSON object"),
        ({"id": 1}, "no prompt"),
        ({"prompt": 5}, "a text or a list of token ids"),
        ({"prompt": "a", "id": []}, "id must be a text or a whole number"),
        ({"prompt": "a", "tempreature": 1}, "did you mean 'temperature'"),
        ({"prompt": "a", "n": "5"}, "n must be a whole number"),
        ({"prompt": "a", "n": True}, "n must be a whole number"),
        ({"prompt": "a", "top_p": -1}, "--top-p -1"),
        ({"prompt": "a", "stop": ""}, "stop must be"),
        ({"prompt": "a", "seed": -1}, "a line's seed"),
        ({"messages": []}, "messages must be a list of at least one"),
        ({"custom_id": "a", "body": {"messages": [{"role": "user"}]}}, "message 1 must have role"),
        ({"messages": ["hello"]}, "message 1 must be a JSON object"),
        ({"messages": [{"role": "user", "content": "a", "tool_calls": []}]}, "unknown parameter"),
        (
            {"messages": [{"role": "user", "content": "a"}], "prompt": "b"},
            "both prompt and messages",
        ),
        ({"custom_id": "a", "body": {"prompt": "a", "n": 2}}, "unknown parameter 'n'"),
        ({"custom_id": "a"}, "body must be"),
    ],
)
def test_a_bad_line_is_an_error_of_its_own(line: Any, says: str) -> None:
    bad, good = items(line, {"prompt": "a", "id": "good"})
    assert bad.error is not None and says in str(bad.error) and good.error is None


def test_ids_that_come_twice() -> None:
    with pytest.raises(UsageError, match="lines 1 and 3 have the same id 3"):
        items({"prompt": "a", "id": 3}, {"prompt": "b"}, {"prompt": "c"})
    assert len(items({"prompt": "a", "id": "2"}, {"prompt": "b"})) == 2
    with pytest.raises(UsageError, match="no lines to answer"):
        items("", " ")


def done(item: Item, status: str = "ok") -> bytes:
    return as_line({item.key: item.id, "status": status, "digest": item.digest})


def resume(path: Path, todo: list[Item], force: bool = False, **job: Any) -> dict[str, bytes]:
    with OutFile(str(path)) as f:
        f.resume(JOB | {"seed": 7} | job, todo, force=force)
        return dict(f.kept)


def test_a_torn_line_is_cut_and_errors_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "o"
    a, b, c = items({"prompt": "a"}, {"prompt": "b"}, {"prompt": "c"})
    resume(path, [a, b, c])
    path.write_bytes(done(a) + done(b)[:-1])
    assert list(resume(path, [a, b, c])) == ["1"] and path.read_bytes() == done(a)
    path.write_bytes(done(a) + done(b, "error") + done(c) + b'{"id"')
    assert list(resume(path, [a, b, c])) == ["1", "3"]
    assert path.read_bytes() == done(a) + done(c)


def test_what_differs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o"
    todo = items({"prompt": "a"}, {"prompt": "b"})
    path.write_bytes(done(todo[0]))
    with pytest.raises(UsageError, match="does not say how they were made"):
        resume(path, todo)
    assert list(resume(path, todo, force=True)) == ["1"]
    with pytest.raises(UsageError, match="begun with model hash 'a', not 'b'"):
        resume(path, todo, model={"hash": "b"})
    with pytest.raises(UsageError, match="begun with params n 1, not 2"):
        resume(path, todo, params={"seed": None, "n": 2})
    with pytest.raises(UsageError, match="answers 1, which asked something else"):
        resume(path, items({"prompt": "other"}))
    with pytest.raises(UsageError, match="answers 1, which is not in the input"):
        resume(path, items({"prompt": "a", "id": "x"}))
    assert path.read_bytes() == done(todo[0])
    with OutFile(str(path)) as f:
        assert f.resume(JOB | {"seed": 99}, todo, force=False)["seed"] == 7
        with pytest.raises(UsageError, match="another batch is writing it"):
            OutFile(str(path))


def test_a_full_disk() -> None:
    f = OutFile("/dev/full")
    with pytest.raises(LlamapyError, match="cannot write to /dev/full: No space"):
        f.write(b"x\n")
    f.close()


def test_ordered() -> None:
    out: list[bytes] = []
    o = Ordered(["1", "2", "3"], out.append)
    o.begin({"3": b"c"}, lambda lines: out.extend(lines))
    o.put("2", b"b")
    assert out == []
    o.put("1", b"a")
    assert out == [b"a", b"b", b"c"]
