"""`llamapy run` on a model that is a script: what goes where, and how it ends."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_model import BOS, EOS, FakeModel, FakeTokenizer

from llamapy.base import paths
from llamapy.cli import options, streams
from llamapy.cli.main import main

Use = Callable[..., FakeModel]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Use:
    """Makes every command open the model given."""

    def set_model(*args: Any, **more: Any) -> FakeModel:
        model = FakeModel(*args, **more)
        monkeypatch.setattr(options, "open_model", lambda o, **more: model)
        return model

    return set_model


class Stdin(io.TextIOWrapper):
    def __init__(self, data: bytes, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def evaluated(model: FakeModel) -> bytes:
    """The prompt as the model saw it."""
    (ctx,) = model.contexts
    return bytes(i for i in ctx.seen if i < 256)


def test_the_answer_alone(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use("Häuser\n".encode())
    assert main(["run", "-p", "x"]) == 0
    assert capfd.readouterr() == ("Häuser\n", "")


def test_display_prompt(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b" there")
    assert main(["run", "-p", "hi", "--display-prompt"]) == 0
    assert capfd.readouterr().out == "hi there"


@pytest.mark.parametrize(
    ("args", "seen"),
    [
        (["-p", r"a\nb"], rb"a\nb"),
        (["-p", r"a\nb\x41\q", "-e"], b"a\nbA\\q"),
        (["-p", r"a\nb", "--escape", "on"], b"a\nb"),
        (["-p", r"a\nb", "--no-escape"], rb"a\nb"),
        (["-p", "-"], b" piped \n"),
        ([], b" piped \n"),
        (["-p", "a\udcffb"], b"a\xffb"),
        (["-p", "<eos>"], b"<eos>"),
        (["-p", "a<eos>", "--special"], b"a"),
        (["-p", "a<eos>", "--special", "on"], b"a"),
        (["-p", "<eos>", "--special", "off"], b"<eos>"),
    ],
)
def test_where_the_prompt_is_from(
    args: list[str], seen: bytes, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(b" piped \n"))
    model = use(b"")
    assert main(["run", *args]) == 0
    assert evaluated(model) == seen


def test_a_file_is_taken_byte_for_byte(use: Use, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_bytes(b"a\r\nb\xff\n\n")
    model = use(b"")
    assert main(["run", "-f", str(tmp_path / "p.txt")]) == 0
    assert evaluated(model) == b"a\r\nb\xff\n\n"


@pytest.mark.parametrize(
    ("args", "stdin", "says"),
    [
        ([], Stdin(b""), "no prompt: give -p TEXT or -f FILE, or pipe it in"),
        ([], Stdin(b"typed", terminal=True), "no prompt: give -p TEXT or -f FILE"),
        (["-p", "a", "-f", "b"], Stdin(b""), "both -p and -f are given"),
        (["-f", "/no/such/file"], Stdin(b""), "cannot read /no/such/file: No such file"),
        (["-p", "a", "--top-p", "-1"], Stdin(b""), "--top-p -1.0: must be"),
        (["-p", "a", "--samplers", "top_q"], Stdin(b""), "--samplers: unknown 'top_q'"),
        (["-p", "a", "--on-overflow", "shift"], Stdin(b""), "--on-overflow shift: must be one of"),
        (["-p", "a", "--stop", ""], Stdin(b""), "a stop text is empty"),
        (["-p", "a", "-o", "/no/such/x"], Stdin(b""), "cannot write /no/such/x: No such file"),
    ],
)
def test_usage_errors(
    args: list[str],
    stdin: Stdin,
    says: str,
    use: Use,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    use(b"abc")
    assert main(["run", *args]) == 2
    out, err = capfd.readouterr()
    assert out == "" and says in err and err.count("\n") == 1


def test_an_empty_prompt(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"abc", tokenizer=FakeTokenizer(bos=None))
    assert main(["run", "-p", ""]) == 2
    assert "empty prompt, and the model has no BOS token" in capfd.readouterr().err
    model = use(b"abc")
    assert main(["run", "-p", ""]) == 0
    assert capfd.readouterr() == ("abc", "") and model.contexts[0].seen[0] == BOS


def test_a_prompt_that_does_not_fit(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"abc")
    assert main(["run", "-p", "x" * 80, "-c", "64", "-n", "4"]) == 4
    out, err = capfd.readouterr()
    assert out == "" and "--ctx-size 85" in err and err.count("\n") == 1


def test_logits_that_are_no_numbers(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"abc", broken=True)
    assert main(["run", "-p", "x"]) == 8
    assert capfd.readouterr().out == ""


def test_json(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"One. Two.")
    args = ["run", "-p", "x", "--json", "--stop", "Two", "-s", "5", "--temp", "0", "-ctk", "f32"]
    assert main([*args, "-n", "20", "-t", "1"]) == 0
    out, err = capfd.readouterr()
    got = json.loads(out)
    assert err == "" and out.count("\n") == 1
    assert got["schema_version"] == 1 and got["text"] == "One. "
    assert (got["finish_reason"], got["stop"], got["truncated"]) == ("stop", "Two", False)
    assert got["counts"] == {"prompt": 2, "cached": 0, "generated": 8}
    assert got["ids"] == list(b"One. Two") and got["seed"] == 5
    assert got["params"]["n_ctx"] == 256 and got["params"]["type_k"] == "f32"
    assert got["params"]["sampling"]["temp"] == 0 and got["params"]["stop"] == ["Two"]
    assert got["model"]["architecture"] == "fake" and len(got["model"]["hash"]) == 64
    repack = got["model"]["repack"]
    assert not repack["done"] and repack["why_not"] == "fewer than 40 tokens to generate"
    assert got["graph"] == {"built": 2, "reused": 3} and got["isa"] == "scalar"
    assert got["threads"] == 1 and got["warnings"] == [] and got["build"]["llamapy"]
    assert {"load_ms", "prompt_ms", "decode_ms", "total_ms"} <= set(got["timings"])


@pytest.mark.parametrize("stdout_is_terminal", [False, True])
def test_progress_of_repacking(
    stdout_is_terminal: bool, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the answer's first token where both are on the terminal, else on a line alone."""
    model = use(b"xyz")
    err = io.StringIO()
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setattr("sys.stdout", out)
    on = {id(err): True, id(out): stdout_is_terminal}
    monkeypatch.setattr(streams, "is_terminal", lambda s: on.get(id(s), False))
    monkeypatch.setattr("llamapy.cli.progress.is_terminal", lambda s: on.get(id(s), False))
    monkeypatch.setattr("llamapy.cli.progress.FIRST_S", 0.0)
    monkeypatch.setattr("llamapy.cli.progress.TERMINAL_S", 0.0)
    model.on_repack = lambda tell: [tell("repacking", n, 4_000_000) for n in (0, 2_000_000)]
    assert main(["run", "-p", "a", "-n", "60"]) == 0
    begun = "\rx [repacking 2/4 MB, 50%" if stdout_is_terminal else "\rrepacking 2/4 MB, 50%"
    assert begun in err.getvalue()
    assert err.getvalue().endswith("\rx" if stdout_is_terminal else " \r")
    out.flush()
    assert out.buffer.getvalue() == (b"xyz\n" if stdout_is_terminal else b"xyz")


def test_json_of_half_a_character(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use([0xF0, 0x9F])
    assert main(["run", "-p", "x", "--json"]) == 0
    out, err = capfd.readouterr()
    got = json.loads(out)
    assert got["text"] == "\ufffd" and got["text_base64"] == "8J8="
    assert [w["code"] for w in got["warnings"]] == ["W07"]
    assert json.loads(err)["warning"]["code"] == "W07"


def test_json_stream(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"ab")
    assert main(["run", "-p", "x", "--json-stream"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [x["event"] for x in lines] == ["started", "prefill", "token", "token", "finished"]
    assert lines[2] == {"event": "token", "id": 97, "text": "a"}
    assert lines[-1]["text"] == "ab"


def test_what_is_left_out_is_in_the_json(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"a")
    args = ["run", "-p", "x" * 80, "-c", "64", "-n", "4", "--on-overflow", "truncate-middle"]
    assert main([*args, "--json"]) == 0
    got = json.loads(capfd.readouterr().out)
    assert got["truncated"] is True and got["dropped_tokens"] == [30, 51]


def test_warnings_can_be_errors(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"a")
    assert main(["run", "-p", "<eos>"]) == 0
    assert capfd.readouterr().err.startswith("llamapy: W06: ")
    assert main(["run", "-p", "<eos>", "--strict"]) == 2
    assert capfd.readouterr().err.startswith("llamapy: error: W06: ")


def test_more_threads_than_processors(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    model = use(b"a")
    assert main(["run", "-p", "x", "-t", "100000"]) == 0
    assert capfd.readouterr().err.startswith("llamapy: W03: -t 100000: this process may use ")
    assert model.contexts[0].options["n_threads"] == 100000
    assert main(["run", "-p", "x", "-t", "0"]) == 0
    assert model.contexts[1].options["n_threads"] is None


def test_raw_bytes(use: Use, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    use([0xFF, 0x41, 0xF0])
    assert main(["run", "-p", "x", "--raw-bytes"]) == 0
    assert capfdbinary.readouterr().out == b"\xffA\xf0"


def test_output_file(use: Use, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"answer")
    path = tmp_path / "out.txt"
    assert main(["run", "-p", "x", "-o", str(path)]) == 0
    assert path.read_bytes() == b"answer" and capfd.readouterr() == ("", "")
    use(b"answer", broken=True)
    assert main(["run", "-p", "x", "-o", str(path)]) == 8
    assert path.read_bytes() == b"answer" and os.listdir(tmp_path) == ["out.txt"]


def test_verbose_goes_to_stderr(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use(b"ab")
    assert main(["run", "-p", "x", "-v"]) == 0
    out, err = capfd.readouterr()
    assert out == "ab" and "eos: 2 prompt tokens" in err and "scalar" in err and "\x1b" not in err


def test_flags_reach_the_context(use: Use) -> None:
    model = use(b"a")
    sizes = ["-c", "128", "-b", "64", "-ub", "32", "-ctk", "f32", "-ctv", "f32"]
    args = [*sizes, "-t", "1", "-tb", "1", "-n", "3", "-ngl", "10"]
    assert main(["run", "-p", "x", *args]) == 0
    assert model.contexts[0].options == {
        "n_ctx": 128,
        "n_batch": 64,
        "n_ubatch": 32,
        "type_k": "f32",
        "type_v": "f32",
        "n_threads": 1,
        "n_threads_batch": 1,
    }


def test_placement_flags_are_read() -> None:
    o = options.ModelOptions(
        gpu_layers="10", override_tensor=[r"blk\.1=CPU"], device="none", tensor_split="3,1"
    )
    flags = options.place_flags(o)
    assert flags.n_gpu_layers == 10 and flags.overrides == ((r"blk\.1", "CPU"),)
    assert flags.devices == () and flags.tensor_split == (3.0, 1.0)


def test_eos_can_be_ignored(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    use([ord("a"), EOS])
    assert main(["run", "-p", "x", "-n", "4", "--ignore-eos", "--json"]) == 0
    got = json.loads(capfd.readouterr().out)
    assert got["finish_reason"] == "length" and got["counts"]["generated"] == 4


def test_file_recommendations_yield_to_flags(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    model = use(b"a")
    model.gguf.keys = {"general.sampling.temp": 0.25, "general.sampling.top_k": 7}
    assert main(["run", "-p", "x", "--json", "--top-k", "3"]) == 0
    sampling = json.loads(capfd.readouterr().out)["params"]["sampling"]
    assert (sampling["temp"], sampling["top_k"]) == (0.25, 3)


def test_ctrl_c_ends_with_what_there_is(use: Use, capfd: pytest.CaptureFixture[str]) -> None:
    def interrupt(tokens: list[int]) -> None:
        if tokens == [ord("b")]:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    model = use(b"abcdef", on_decode=interrupt)
    with pytest.raises(KeyboardInterrupt):
        main(["run", "-p", "x"])
    out, err = capfd.readouterr()
    assert out == "abc" and err.startswith("llamapy: interrupted: 2 prompt tokens")
    assert signal.getsignal(signal.SIGINT) is before and model.n_open == 0


def test_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLAMAPY_MODELS", str(tmp_path))
    assert main(["run", "-p", "x"]) == 2
    assert "'llamapy pull demo'" in capfd.readouterr().err
    assert main(["run", "-p", "x", "-m", "gemma3-270m"]) == 2
    assert "'llamapy pull gemma3-270m'" in capfd.readouterr().err
    with open(tmp_path / paths.DEMO.file, "wb") as f:
        f.truncate(paths.DEMO.size_bytes)
    assert options.resolve_model(None) == tmp_path / paths.DEMO.file
    assert "using the demo model" in capfd.readouterr().err
    assert options.resolve_model("demo") == tmp_path / paths.DEMO.file
    assert capfd.readouterr().err == ""


def test_list_devices(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--list-devices", "-m", "/no/such/file"]) == 0
    out, err = capfd.readouterr()
    assert err == "" and out.startswith("CPU: ") and out.endswith(" MiB free)\n")
