"""`llamapy perplexity --kl-base` and `--kl`, and the windows of method hf, on a model that is a
script: statistics against numpy in float64, damaged and hostile files refused."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_model import BOS, N_VOCAB, FakeContext, FakeModel, FakeTokenizer

from llamapy.base.atomic import resumable_write
from llamapy.cli import options
from llamapy.cli.main import main
from llamapy.runtime.batch import Batch

TEXT = bytes(np.random.default_rng(6).integers(97, 123, 103, dtype=np.uint8))
IDS = [BOS, *TEXT]
ARGS = ["perplexity", "-c", "16"]
NOISE = 0.4


def says(history: list[int], noise: float) -> Any:
    rng = np.random.default_rng(history)
    return (rng.normal(0, 5, N_VOCAB) + noise * rng.normal(0, 1, N_VOCAB)).astype(np.float32)


class Context(FakeContext):
    """Sequences by number; what a token is followed by depends on all before it."""

    noise = 0.0

    def clear(self) -> None:
        self.of: dict[int, list[int]] = {}

    def decode_batch(self, batch: Batch) -> Any:
        out = []
        for token, seqs, want in zip(batch.tokens.tolist(), batch.seqs, batch.want, strict=True):
            history = self.of.setdefault(seqs[0], [])
            history.append(token)
            if want:
                out.append(says(history, self.noise))
        return np.array(out, np.float32).reshape(len(out), N_VOCAB)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., FakeModel]:
    monkeypatch.chdir(tmp_path)
    Path("t").write_bytes(TEXT)
    monkeypatch.setattr("fake_model.FakeContext", Context)

    def set_model(noise: float = 0.0, **more: Any) -> FakeModel:
        monkeypatch.setattr(Context, "noise", noise)
        model = FakeModel(**more)
        monkeypatch.setattr(options, "open_model", lambda o, **more: model)
        return model

    return set_model


def log_softmax(x: Any) -> Any:
    wide = x.astype(np.float64)
    return wide - np.log(np.exp(wide).sum())


def answer(capfd: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*ARGS, "--json", *args]) == 0
    found = json.loads(capfd.readouterr().out)
    assert isinstance(found, dict)
    return found


def rows() -> list[tuple[Any, Any, int]]:
    """Log-probabilities of base and model, and the token that came, of every scored token."""
    out = []
    for i in range(6):
        window = [BOS, *IDS[i * 16 + 1 : i * 16 + 16]]
        for p in range(8, 15):
            seen = window[: p + 1]
            pair = (log_softmax(says(seen, noise)) for noise in (0.0, NOISE))
            out.append((*pair, window[p + 1]))
    return out


def statistics() -> dict[str, Any]:
    """The block, from the definitions."""
    nb, nq, kl, same = (np.zeros(42) for _ in range(4))
    for i, (p, q, token) in enumerate(rows()):
        kept = p > -16
        rest_p, rest_q = np.exp(p[~kept]).sum(), np.exp(q[~kept]).sum()
        kl[i] = (np.exp(p[kept]) * (p[kept] - q[kept])).sum()
        kl[i] += rest_p * np.log(rest_p / rest_q) if rest_p else 0
        nb[i], nq[i] = -p[token], -q[token]
        same[i] = p.argmax() == q.argmax()
    n = len(kl)

    def mean(x: Any) -> tuple[float, float]:
        return x.mean(), x.std(ddof=1) / math.sqrt(n)

    def points(x: Any, shares: list[float]) -> dict[str, float]:
        found = {f"p{s:g}": np.percentile(x, s) for s in shares}
        return {"max": x.max(), "min": x.min(), **found}

    pq, pb = np.exp(nq.mean()), np.exp(nb.mean())
    eq, eb = mean(nq)[1], mean(nb)[1]
    cov = np.cov(nq, nb)[0, 1] / n
    dp = np.exp(-nq) - np.exp(-nb)
    rms = math.sqrt((dp**2).mean())
    ratio = math.exp(nq.mean() - nb.mean())
    return {
        "ppl": (pq, pq * eq),
        "ppl_base": (pb, pb * eb),
        "correlation": np.corrcoef(nq, nb)[0, 1],
        "ln_ratio": mean(nq - nb),
        "ratio": (ratio, ratio * mean(nq - nb)[1]),
        "difference": (pq - pb, math.sqrt((pq * eq) ** 2 + (pb * eb) ** 2 - 2 * pq * pb * cov)),
        "kl": (*mean(kl), points(kl, [99.9, 99, 95, 90, 50, 10, 5, 1, 0.1])),
        "delta_p": (*mean(dp), points(dp, [99.9, 99, 95, 90, 75, 50, 25, 10, 5, 1, 0.1])),
        "delta_p_rms": (rms, mean(dp**2)[1] / (2 * rms)),
        "same_top": (same.mean(), math.sqrt(same.mean() * (1 - same.mean()) / (n - 1))),
    }


def test_the_statistics(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    base = answer(capfd, "-f", "t", "--kl-base", "b")
    use(NOISE)
    got = answer(capfd, "--kl", "b", "-np", "3")
    want = statistics()
    found = got["divergence"]
    assert 0.02 < want["kl"][0] < 1 and 0.5 < want["same_top"][0] < 1  # worth comparing
    assert found["n"] == 42 and set(found) == {"n", *want}
    for name, value in want.items():
        if name == "correlation":
            assert found[name] == pytest.approx(value, rel=1e-6)
            continue
        value, error, *points = value
        assert found[name]["value"] == pytest.approx(value, rel=2e-4, abs=1e-6), name
        assert found[name]["error"] == pytest.approx(error, rel=2e-4), name
        for share, x in points[0].items() if points else ():
            assert found[name][share] == pytest.approx(x, rel=2e-3, abs=2e-6), (name, share)
    assert got["ppl"] == pytest.approx(found["ppl"]["value"], rel=1e-12)
    assert base["ppl"] == pytest.approx(found["ppl_base"]["value"], rel=1e-12)
    assert got["base"]["model"] == base["model"] and got["tokens"] == base["tokens"]
    assert main([*ARGS, "--kl", "b"]) == 0
    shown = capfd.readouterr().out
    assert f"Mean KLD                       : {found['kl']['value']:.6f} +/-" in shown
    assert f"Median delta p                 : {100 * found['delta_p']['p50']:.3f}%" in shown


def test_the_same_model_is_not_apart(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    answer(capfd, "-f", "t", "--kl-base", "b", "-np", "2")
    got = answer(capfd, "--kl", "b", "-f", "t")["divergence"]
    assert 0 <= got["kl"]["max"] < 1e-6 and got["same_top"]["value"] == 1
    assert got["ratio"] == {"value": 1.0, "error": 0.0} and got["delta_p"]["max"] == 0


def test_a_base_does_not_depend_on_the_batch(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    for n in ("1", "4"):
        answer(capfd, "-f", "t", "--kl-base", f"b{n}", "-np", n)
    assert Path("b1").read_bytes() == Path("b4").read_bytes()


def test_resume_compares_to_the_same_bits(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    answer(capfd, "-f", "t", "--kl-base", "b")
    use(NOISE)
    whole = answer(capfd, "--kl", "b", "--chunks-out", "whole")
    raw = Path("whole").read_bytes()
    lines = raw.splitlines(keepends=True)
    for cut in (len(lines[0]), len(lines[0]) + 9, len(raw) - len(lines[-1]), len(raw)):
        Path("part").write_bytes(raw[:cut])
        got = answer(capfd, "--kl", "b", "--chunks-out", "part", "--resume")
        assert got["divergence"] == whole["divergence"] and Path("part").read_bytes() == raw
    Path("part").write_bytes(raw.replace(b'"same_top": [1', b'"same_top": [7'))
    assert main([*ARGS, "--kl", "b", "--chunks-out", "part", "--resume"]) == 2
    assert "the file is damaged" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["-f", "other"], "a base of another text"),
        (["-c", "32"], "-c 32: the base was made with 16"),
        (["--method", "hf"], "--method hf: the base was made with llamacpp"),
        (["--stride", "4"], "--stride 4: the base was made with 16"),
    ],
)
def test_another_text_or_method_is_refused(
    args: list[str], says: str, use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    Path("other").write_bytes(TEXT.replace(b"a", b"A"))
    answer(capfd, "-f", "t", "--kl-base", "b")
    assert main(["perplexity", "--kl", "b", *args]) == 2
    out, err = capfd.readouterr()
    assert out == "" and says in err and err.count("\n") == 1


def test_another_vocabulary_is_refused(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    answer(capfd, "-f", "t", "--kl-base", "b")
    model = use()
    model.hparams.n_vocab = N_VOCAB + 1
    assert main([*ARGS, "--kl", "b"]) == 2
    assert "a base over 259 tokens; this model knows 260" in capfd.readouterr().err

    class Upper(FakeTokenizer):
        def piece(self, id: int, special: bool = False) -> bytes:
            return super().piece(id, special).upper()

    use(tokenizer=Upper())
    assert main([*ARGS, "--kl", "b"]) == 2
    assert "another vocabulary" in capfd.readouterr().err


def resealed(raw: bytes, **fields: Any) -> bytes:
    """The base with other fields in its header, and its checksum made right."""
    n = struct.unpack_from("<I", raw, 20)[0]
    header = json.dumps({**json.loads(raw[32 : 32 + n]), **fields}).encode()
    prefix = raw[:20] + struct.pack("<3I", len(header), zlib.crc32(header), 0)
    return prefix + header + raw[32 + n :]


def test_damaged_bases_are_refused(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    answer(capfd, "-f", "t", "--kl-base", "b")
    raw = Path("b").read_bytes()
    n = struct.unpack_from("<I", raw, 20)[0]
    block = 32 + n + 4 * 104
    bad = {
        "is no base": b"hello" * 9,
        "is of version 2": raw[:16] + b"\2" + raw[17:],
        "has a header of 4294967295 bytes": raw[:20] + b"\xff" * 4 + raw[24:],
        "has a damaged header": raw[:40] + b"?" + raw[41:],
        "has damaged tokens": raw[: block - 1] + b"?" + raw[block:],
        "window 1 is damaged": raw[:block] + b"\xff" * 8 + raw[block + 8 :],
        "window 6 is damaged": raw[:-300] + bytes([raw[-300] ^ 1]) + raw[-299:],
        "ends within window 6": raw[:-1],
        "has 1 bytes behind its end": raw + b"?",
    }
    for says, data in bad.items():
        Path("bad").write_bytes(data)
        assert main([*ARGS, "--kl", "bad"]) == 3, says
        out, err = capfd.readouterr()
        assert out == "" and says in err and err.count("\n") == 1, (says, err)
    for cut in range(0, block + 40, 7):
        Path("bad").write_bytes(raw[:cut])
        assert main([*ARGS, "--kl", "bad"]) == 3
    assert main([*ARGS, "--kl", "missing"]) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"n_tokens": 1 << 40},
        {"n_tokens": -1},
        {"n_ctx": 0},
        {"n_ctx": 1 << 30},
        {"n_ctx": "16"},
        {"stride": 0},
        {"stride": 1 << 30},
        {"n_chunks": 1 << 30},
        {"n_chunks": 7},
        {"n_chunks": 0},
        {"n_vocab": True},
        {"bos": 1 << 20},
        {"bos": "x"},
        {"method": "other"},
        {"method": "hf"},
        {"byte_order": "big"},
        {"first_scored": 2},
        {"text": None},
    ],
    ids=str,
)
def test_hostile_headers_are_refused(
    fields: dict[str, Any], use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    answer(capfd, "-f", "t", "--kl-base", "b")
    Path("bad").write_bytes(resealed(Path("b").read_bytes(), **fields))
    assert main([*ARGS, "--kl", "bad"]) in (2, 3)
    out, err = capfd.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith("llamapy: error: bad: ")


def test_a_base_appears_whole_or_not_at_all(
    use: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    Path("b").write_bytes(b"before")
    real = Context.decode_batch

    def decode(self: Context, batch: Batch) -> Any:
        out = real(self, batch)
        if self.of[0] and len(self.of[0]) > 8 and 4 in self.of:
            out[-1] = np.nan
        return out

    monkeypatch.setattr(Context, "decode_batch", decode)
    assert main([*ARGS, "-f", "t", "--kl-base", "b", "-np", "5"]) == 8
    assert Path("b").read_bytes() == b"before" and Path("b.part").stat().st_size > 1000
    monkeypatch.setattr(Context, "decode_batch", real)
    assert answer(capfd, "-f", "t", "--kl-base", "b", "--resume")["n_resumed"] == 4
    assert {x.name for x in Path().iterdir()} == {"b", "t"}
    assert main([*ARGS, "-f", "t", "--kl-base", "/dev/full", "-np", "1"]) == 1
    assert "cannot write to /dev/full: No space left" in capfd.readouterr().err
    assert main([*ARGS, "-f", "t", "--kl-base", "/no/such/b"]) == 2
    assert main([*ARGS, "-f", "t", "--kl-base", "x", "--kl", "b"]) == 2


def test_a_base_is_gone_on_with(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """Cut anywhere, or damaged, it ends as in one go; so do the lines of windows beside it."""
    use()
    whole = answer(capfd, "-f", "t", "--kl-base", "b", "--chunks-out", "lines")
    raw, lines = Path("b").read_bytes(), Path("lines").read_bytes()
    args = ["-f", "t", "--kl-base", "c", "--chunks-out", "d", "--resume", "-np", "2"]
    head = raw.index(b"}") + 1 + 4 * len(IDS)
    ends = [head]
    while ends[-1] < len(raw):
        ends.append(ends[-1] + 16 + struct.unpack_from("<Q", raw, ends[-1])[0])
    assert len(ends) == 7
    cuts = [0, 5, head - 1, head, *(at + x for at in ends[1:-1] for x in (-1, 0, 7)), len(raw)]
    for cut in cuts:
        Path("c.part").write_bytes(raw[:cut])
        Path("c").unlink(missing_ok=True)
        n = sum(end <= cut for end in ends[1:])
        keep = lines.splitlines(keepends=True)[: 1 + (n * cut) % 7]  # fewer, as many, or more
        Path("d").write_bytes(b"".join(keep))
        got = answer(capfd, *args)
        assert (got["ppl"], got["ppl_error"]) == (whole["ppl"], whole["ppl_error"])
        assert got["n_resumed"] == n and not Path("c.part").exists()
        assert (Path("c").read_bytes(), Path("d").read_bytes()) == (raw, lines)
    torn = bytearray(raw)
    torn[ends[3] + 30] ^= 1
    Path("c").unlink()
    Path("c.part").write_bytes(torn)
    assert answer(capfd, *args)["n_resumed"] == 3 and Path("c").read_bytes() == raw
    again = answer(capfd, *args)  # it is whole: nothing is left to do
    assert again["n_resumed"] == 6 and again["isa"] is None and again["ppl"] == whole["ppl"]
    assert Path("c").read_bytes() == raw


def test_a_base_of_something_else_is_not_gone_on_with(
    use: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    use()
    answer(capfd, "-f", "t", "--kl-base", "b")
    raw = Path("b").read_bytes()

    def refused(says: str, *args: str) -> None:
        assert main(["perplexity", "-f", "t", "--kl-base", "c", *args]) == 2
        out, err = capfd.readouterr()
        assert out == "" and says in err and err.count("\n") == 1
        assert [x.name for x in Path().glob("c*")] == ["c.part"]

    Path("c.part").write_bytes(raw[:-1])
    refused("c.part: is there already; --resume continues it", "-c", "16")
    refused("its chunks have n_ctx 16, these 24; give another --kl-base", "-c", "24", "--resume")
    refused("its chunks have n_chunks 6, these 2", "-c", "16", "--chunks", "2", "--resume")
    assert Path("c.part").read_bytes() == raw[:-1]
    Path("c.part").write_bytes(b"x" * 5000)
    refused("c.part: is no base that can be gone on with", "-c", "16", "--resume")
    Path("b").write_bytes(raw + b"1")
    assert main([*ARGS, "-f", "t", "--kl-base", "b", "--resume"]) == 2
    assert "b: is damaged" in capfd.readouterr().err and Path("b").read_bytes() == raw + b"1"
    with resumable_write("c", resume=True) as f:
        assert main([*ARGS, "-f", "t", "--kl-base", "c", "--resume"]) == 2
        assert "c.part: another process is writing it" in capfd.readouterr().err
        f.write(b"whole")
    assert Path("c").read_bytes()[:5] == b"whole"


def hf(ids: list[int], size: int, stride: int) -> list[float]:
    """nll of every predicted token, by the loop of the page that defines the method."""
    out = []
    before = 0
    for begin in range(0, len(ids), stride):
        end = min(begin + size, len(ids))
        window = ids[begin:end]
        for at in range(len(window) - (end - before), len(window)):
            if at:
                out.append(-log_softmax(says(window[:at], 0.0))[window[at]])
        before = end
        if end == len(ids):
            break
    return out


@pytest.mark.parametrize("size", [2, 7, 16, 103, 104, 105, 512])
@pytest.mark.parametrize("stride", [None, 1, 5, 16])
def test_hf(size: int, stride: int | None, use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    if stride is not None and stride > size:
        assert main(["perplexity", "-f", "t", "--method", "hf", "-c", "2", "--stride", "5"]) == 2
        return
    more = [] if stride is None else ["--stride", str(stride)]
    got = answer(capfd, "-f", "t", "--method", "hf", "-c", str(size), *more)
    want = hf(IDS, size, stride or size // 2)
    assert got["method"] == "hf" and got["stride"] == (stride or size // 2) and got["bos"] is None
    assert got["n_scored"] == len(want) and got["n_tokens"] == 104
    if (stride or size // 2) < size:
        assert len(want) == 103  # all but the first
    assert got["ppl"] == pytest.approx(math.exp(np.mean(want)), rel=1e-6)


def test_hf_takes_short_texts(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    for text, n in ((b"", 0), (b"a", 1), (b"ab", 2)):
        Path("s").write_bytes(text)
        args = ["-f", "s", "--method", "hf"]
        if n == 0:
            assert main([*ARGS, *args]) == 2
            assert "nothing to predict" in capfd.readouterr().err
        else:
            assert answer(capfd, *args)["n_scored"] == n


def test_hf_resumes_and_compares(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    use()
    args = ["-f", "t", "--method", "hf", "--stride", "5"]
    whole = answer(capfd, *args, "--chunks-out", "w", "--kl-base", "b")
    raw = Path("w").read_bytes()
    Path("p").write_bytes(raw[: len(raw) // 2])
    got = answer(capfd, *args, "--chunks-out", "p", "--resume")
    assert (got["ppl"], Path("p").read_bytes()) == (whole["ppl"], raw) and got["n_resumed"] > 3
    found = answer(capfd, "--kl", "b")
    assert found["divergence"]["n"] == 103 and found["divergence"]["kl"]["max"] < 1e-6


def foreign(n_ctx: int = 16, n_chunks: int = 6) -> tuple[bytes, list[float], list[float]]:
    """A base as llama-perplexity writes it, the divergences of NOISE's model from it, and what it
    can say of the tokens that came."""
    ids = IDS[: n_ctx * n_chunks]
    out = [b"_logits_", np.array([n_ctx, N_VOCAB, n_chunks, *ids], "<i4").tobytes()]
    kl, base = [], []
    for p, q, token in rows():
        least = max(p.min(), p.max() - 16)
        scale = np.float32((p.max() - least) / 65535)
        codes = np.round((np.maximum(p, least) - least) / scale).astype("<u2")
        numbers = np.array([scale, least], "<f4")
        out += [numbers.tobytes(), np.append(codes, 0).astype("<u2").tobytes()]
        kept = (p > -16) & (codes > 0)
        rest_p, rest_q = np.exp(p[~kept]).sum(), np.exp(q[~kept]).sum()
        base.append(max(p[token], least))
        kl.append((np.exp(p[kept]) * (p[kept] - q[kept])).sum() + rest_p * np.log(rest_p / rest_q))
    return b"".join(out), kl, base


def test_a_base_of_llama_perplexity(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    raw, kl, base = foreign()
    Path("b").write_bytes(raw)
    use(NOISE)
    got = answer(capfd, "--kl", "b", "-f", "t", "--chunks-out", "c")
    assert got["base"]["model"].startswith("llama-perplexity ") and got["n_chunks"] == 6
    found, want = got["divergence"], statistics()
    assert found["kl"]["value"] == pytest.approx(np.mean(kl), rel=1e-3)
    assert found["kl"]["max"] == pytest.approx(np.max(kl), rel=1e-3)
    for name in ("ppl", "same_top"):
        assert found[name]["value"] == pytest.approx(want[name][0], rel=1e-6)
    assert found["ppl_base"]["value"] == pytest.approx(np.exp(-np.mean(base)), rel=1e-3)
    lines = Path("c").read_bytes().splitlines(keepends=True)
    Path("c").write_bytes(b"".join(lines[:3]))
    again = answer(capfd, "--kl", "b", "--chunks-out", "c", "--resume")
    assert again["divergence"] == found and again["n_resumed"] == 2
    Path("t").write_bytes(TEXT[::-1])
    assert main([*ARGS, "--kl", "b", "-f", "t"]) == 2
    assert "a base of another text" in capfd.readouterr().err


def test_damaged_bases_of_llama_perplexity(use: Any, capfd: pytest.CaptureFixture[str]) -> None:
    raw, _, _ = foreign()
    use()
    first = 20 + 4 * 96
    bad = {
        "has": raw[:-1],
        f"should have {len(raw)}": raw + b"?",
        "holds 0 windows": raw[:16] + bytes(4) + raw[20:],
        "holds 2147483647 windows": raw[:16] + b"\xff\xff\xff\x7f" + raw[20:],
        "holds 6 windows of -1": raw[:8] + b"\xff" * 4 + raw[12:],
        "has tokens that are none": raw[:20] + b"\xff" * 4 + raw[24:],
        "is damaged in window 1": raw[:first] + np.float32(np.nan).tobytes() + raw[first + 4 :],
        "damaged in window 1": raw[: first + 4] + np.float32(99).tobytes() + raw[first + 8 :],
    }
    for says, data in bad.items():
        Path("bad").write_bytes(data)
        assert main([*ARGS, "--kl", "bad"]) == 3, says
        out, err = capfd.readouterr()
        assert out == "" and says in err and err.count("\n") == 1, (says, err)
    for cut in range(8, first + 20, 7):
        Path("bad").write_bytes(raw[:cut])
        assert main([*ARGS, "--kl", "bad"]) in (2, 3)
        assert capfd.readouterr().err.startswith("llamapy: error: bad: ")
