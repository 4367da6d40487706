"""`llamapy logits` and `llamapy graph` on a model that is a script."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_model import BOS, N_VOCAB, FakeModel

from llamapy.cli import options
from llamapy.cli.main import main

Use = Callable[..., FakeModel]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    def set_model(*args: Any, **more: Any) -> FakeModel:
        model = FakeModel(*args, **more)
        monkeypatch.setattr(options, "open_model", lambda o, **more: model)
        return model

    return set_model


def test_all_rows(use: Use, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    model = use(b"a")
    out = tmp_path / "o.npy"
    assert main(["logits", "--tokens", "1,2, 3,4,5", "-ub", "2", "-o", str(out)]) == 0
    assert capfd.readouterr() == ("", "")
    got = np.load(out)
    assert got.shape == (5, N_VOCAB) and got.dtype == np.float32
    assert (got.argmax(axis=1) == ord("a")).all()
    assert model.contexts[0].calls == [(2, "all"), (2, "all"), (1, "all")]
    assert model.contexts[0].seen == [1, 2, 3, 4, 5]


def test_the_last_row(use: Use, tmp_path: Path) -> None:
    model = use(b"a")
    out = tmp_path / "o.npy"
    assert main(["logits", "-p", "xyz", "--last", "-ub", "2", "-o", str(out)]) == 0
    assert np.load(out).shape == (1, N_VOCAB)
    assert model.contexts[0].calls == [(2, "none"), (2, "last")]
    assert model.contexts[0].seen == [BOS, *b"xyz"]


def test_json_and_stdout(
    use: Use, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    use(b"a")
    out = tmp_path / "o.npy"
    assert main(["logits", "--tokens", "7", "--json", "-o", str(out)]) == 0
    got = json.loads(capfdbinary.readouterr().out)
    assert got["shape"] == [1, N_VOCAB] and got["ids"] == [7] and got["path"] == str(out)
    assert got["repack"]["done"] is False and got["repack"]["why_not"].startswith("fewer than")
    assert main(["logits", "--tokens", "7", "-o", "-"]) == 0
    array = np.load(io.BytesIO(capfdbinary.readouterr().out))
    assert array.shape == (1, N_VOCAB)


@pytest.mark.parametrize("dtype", ["<i4", "<i8", "<u2"])
def test_tokens_from_a_file(use: Use, tmp_path: Path, dtype: str) -> None:
    np.save(tmp_path / "t.npy", np.array([9, 8, 7], dtype))
    np.array([9, 8, 7], "<i4").tofile(tmp_path / "t.i32")
    for name in ("t.npy", "t.i32"):
        model = use(b"a")
        args = ["--tokens-file", str(tmp_path / name), "-o", str(tmp_path / "o.npy")]
        assert main(["logits", *args]) == 0
        assert model.contexts[0].seen == [9, 8, 7]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--tokens", "1"], 2, "give -o OUT.npy"),
        (["-o", "o.npy"], 2, "give one of --tokens, --tokens-file and -p"),
        (["--tokens", "1", "-p", "x", "-o", "o.npy"], 2, "give one of"),
        (["--tokens", "1,x", "-o", "o.npy"], 2, "expected numbers such as 1,2,3"),
        (["--tokens", "", "-o", "o.npy"], 2, "no tokens"),
        (["--tokens-file", "no.npy", "-o", "o.npy"], 2, "no.npy: cannot be read as tokens"),
        (["--tokens-file", "t.txt", "-o", "o.npy"], 2, "a file of tokens is .npy or .i32"),
        (["--tokens-file", "f.npy", "-o", "o.npy"], 2, "expected one axis of integers"),
        (["--tokens-file", "odd.i32", "-o", "o.npy"], 2, "5 bytes are no whole number of int32"),
        (["--tokens", "1,2,3", "-c", "2", "-o", "o.npy"], 4, "--ctx-size 3"),
        (["--tokens", "1", "-o", "-", "--json"], 2, "cannot both go to stdout"),
    ],
)
def test_errors_leave_no_file(
    args: list[str],
    code: int,
    says: str,
    use: Use,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("f.npy", np.zeros((2, 2), np.float32))
    Path("odd.i32").write_bytes(b"12345")
    use(b"a")
    assert main(["logits", *args]) == code
    out, err = capfd.readouterr()
    assert out == "" and says in err and err.count("\n") == 1
    assert not Path("o.npy").exists()


def test_logits_that_are_no_numbers(
    use: Use, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    use(b"a", broken=True)
    out = tmp_path / "o.npy"
    assert main(["logits", "--tokens", "1,2", "-o", str(out)]) == 8
    assert "token 0" in capfd.readouterr().err and not out.exists()


def test_graph(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    assert main(["graph"]) == 0
    assert capfd.readouterr().out == "decode as text\n"
    assert main(["graph", "--kind", "prompt", "--format", "dot"]) == 0
    assert capfd.readouterr().out == "prompt as dot\n"
    assert main(["graph", "--json"]) == 0
    want = {"schema_version": 1, "command": "graph", "kind": "decode"}
    assert json.loads(capfd.readouterr().out) == want
    assert main(["graph", "--format", "svg"]) == 2
