"""`llamapy perplexity` on a model that is a script: what is scored, kept, refused and continued."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_model import BOS, FakeModel, FakeTokenizer, HistoryContext, says

from llamapy.cli import options
from llamapy.cli.main import main
from llamapy.runtime.batch import Batch

TEXT = bytes(np.random.default_rng(5).integers(97, 123, 103, dtype=np.uint8))  # 104 ids with BOS
ARGS = ["perplexity", "-c", "16", "-f", "t.txt"]


class Context(HistoryContext):
    nan_at = -1

    def spoil(self, out: list[Any]) -> None:
        if self.nan_at >= 0:
            out[self.nan_at][3] = np.nan


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., FakeModel]:
    monkeypatch.chdir(tmp_path)
    Path("t.txt").write_bytes(TEXT + b"\n")
    monkeypatch.setattr("fake_model.FakeContext", Context)

    def set_model(**more: Any) -> FakeModel:
        model = FakeModel(**more)
        monkeypatch.setattr(options, "open_model", lambda o, **more: model)
        return model

    return set_model


def expected(
    n_chunks: int,
    size: int = 16,
    step: int = 16,
    first: int = 8,
    bos: bool = True,
    ids: Any = (BOS, *TEXT),
) -> Any:
    """The windows' nll in float64, straight from the definition."""
    out = []
    for i in range(n_chunks):
        row = list(ids[i * step : i * step + size])
        if bos:
            row[0] = BOS
        nll = []
        for p in range(first, size - 1):
            x = says(row[: p + 1]).astype(np.float64)
            nll.append(np.log(np.exp(x - x.max()).sum()) + x.max() - x[row[p + 1]])
        out.append(nll)
    return np.array(out)


def answer(capfd: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*ARGS, "--json", *args]) == 0
    found = json.loads(capfd.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_method(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    got = answer(capfd)
    nll = expected(6)
    assert got["method"] == "llamacpp" and got["n_chunks"] == 6 and got["n_scored"] == 6 * 7
    assert got["n_tokens"] == 104 and got["bos"] == BOS and got["first_scored"] == 9
    assert got["ppl"] == pytest.approx(math.exp(nll.mean()), rel=1e-6)
    error = got["ppl"] * math.sqrt(nll.var() / (nll.size - 1))
    assert got["ppl_error"] == pytest.approx(error, rel=1e-6)
    assert main(ARGS) == 0
    assert capfd.readouterr().out == f"Final estimate: PPL = {got['ppl']:.4f} +/- {error:.5f}\n"


def test_windows_together_or_alone(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    alone = use()
    one = answer(capfd, "-np", "1")
    assert alone.contexts[0].calls == [(8, "0"), (7, "7")] * 6  # the last token is not evaluated
    together = use()
    four = answer(capfd, "-np", "4")
    assert together.contexts[0].calls == [(32, "0"), (28, "28"), (16, "0"), (14, "14")]
    assert (one["ppl"], one["ppl_error"]) == (four["ppl"], four["ppl_error"])


def test_stride(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    Path("t.txt").write_bytes(TEXT * 3)
    got = answer(capfd, "--stride", "4")
    nll = expected(14, size=256, step=4, first=251, bos=False, ids=[BOS, *TEXT * 3])
    assert got["method"] == "llamacpp-stride" and got["n_ctx"] == 256  # 16 + 4 / 2, rounded up
    assert got["n_chunks"] == 14  # ceil((310 - 256) / 4)
    assert got["ppl"] == pytest.approx(math.exp(nll.mean()), rel=1e-6)


def test_no_bos_where_the_vocabulary_adds_none(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use(tokenizer=FakeTokenizer(add_bos=False))
    got = answer(capfd, "--chunks", "2")
    assert got["bos"] is None and got["n_tokens"] == 103 and got["n_chunks"] == 2


def test_control_tokens_in_a_text_are_text(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    Path("t.txt").write_bytes(b"<eos>" * 20)
    assert answer(capfd)["n_tokens"] == 101


def test_resume_gives_the_same_bits(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    whole = answer(capfd, "--chunks-out", "whole", "-np", "2")
    lines = Path("whole").read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    all_bytes = b"".join(lines)
    for cut in (0, 5, len(lines[0]), len(lines[0]) + 9, len(all_bytes) - 1, len(all_bytes)):
        Path("part").write_bytes(all_bytes[:cut])
        got = answer(capfd, "--chunks-out", "part", "--resume", "-np", "3")
        assert (got["ppl"], got["ppl_error"]) == (whole["ppl"], whole["ppl_error"])
        assert got["n_resumed"] == max(all_bytes[:cut].count(b"\n") - 1, 0)
        assert Path("part").read_bytes() == all_bytes


def test_what_was_done_is_kept(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    monkeypatch.setattr(Context, "fail_at", 6)
    assert main([*ARGS, "--chunks-out", "c", "-np", "1"]) == 1
    assert Path("c").read_bytes().count(b"\n") == 4
    monkeypatch.setattr(Context, "fail_at", -1)
    assert answer(capfd, "--chunks-out", "c", "--resume")["n_resumed"] == 3


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "is there already"),
        (["--resume", "-c", "32"], "n_ctx 16, these 32"),
        (["--resume", "-ctk", "f32"], "type_k f16, these f32"),
        (["--resume", "-f", "crlf.txt"], "its chunks have tokens"),
    ],
)
def test_other_windows_are_refused(
    args: list[str], says: str, use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    Path("crlf.txt").write_bytes(TEXT.replace(b"a", b"\r"))
    assert main([*ARGS, "--chunks-out", "c"]) == 0
    before = Path("c").read_bytes()
    capfd.readouterr()
    assert main([*ARGS, "--chunks-out", "c", *args]) == 2
    out, err = capfd.readouterr()
    assert out == "" and says in err and err.count("\n") == 1
    assert Path("c").read_bytes() == before


@pytest.mark.parametrize("raw", [b"hello\n", b"hello", b"[1]\n", b"{}\n", b"\xff\n", b"[" * 99999])
def test_a_file_that_is_no_chunks(raw: bytes, use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    Path("c").write_bytes(raw)
    assert main([*ARGS, "--chunks-out", "c", "--resume"]) == 2
    assert "no file of chunks" in capfd.readouterr().err and Path("c").read_bytes() == raw


@pytest.mark.parametrize("n", [0, 1, 2, 14, 15, 30, 31])
def test_little_text(n: int, use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    Path("t.txt").write_bytes(TEXT[:n])
    if n < 15:
        assert main(ARGS) == 2
        assert f"the text has {n + 1} tokens, and a window takes 16" in capfd.readouterr().err
    else:
        assert answer(capfd)["n_scored"] == 7 * ((n + 1) // 16)


def test_nan(use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    real = Context.decode_batch

    def decode(self: Context, batch: Batch) -> Any:
        self.nan_at = 2 if batch.n_outputs and len(self.calls) > 2 else -1
        return real(self, batch)

    monkeypatch.setattr(Context, "decode_batch", decode)
    assert main([*ARGS, "--chunks-out", "c", "-np", "1"]) == 8
    assert "chunk 2, position 10" in capfd.readouterr().err
    assert Path("c").read_bytes().count(b"\n") == 2
